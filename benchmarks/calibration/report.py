"""What the figures say: a table for each set, and whether the aims are reached."""

from benchmarks.calibration.others import OTHERS
from benchmarks.calibration.ours import DEFAULT
from benchmarks.data import REPORTED_CLASSES
from benchmarks.report import Figures, Target, mean, select, show, show_means

TABLES = ("magic", "htru2", "eeg_eye_state")
IMAGES = {"mnist 1000": 1000, "mnist 5000": 5000}
TASKS = (*IMAGES, *TABLES)
# Kozyrskiy (2023): test error, negative log likelihood, expected calibration error.
TRANSFORMS: dict[str, dict[str, tuple[float, ...]]] = {
    "Table 4.4-4.6, Beta transform": {
        "magic": (0.133, 0.336, 0.0263),
        "htru2": (0.0224, 0.074, 0.043),
        "eeg_eye_state": (0.18, 0.40, 0.027),
    },
    "Table 4.4-4.6, log-normal": {
        "magic": (0.139, 0.351, 0.022),
        "htru2": (0.022, 0.081, 0.039),
        "eeg_eye_state": (0.21, 0.43, 0.022),
    },
}
REPORTED = {
    name: {
        where: figures[name]
        for where, figures in (TRANSFORMS | REPORTED_CLASSES).items()
        if name in figures
    }
    for name in TABLES
}
JUDGED = ("mnist 5000", *TABLES)
LARGEST_ERROR = 0.02  # of calibration
MOST_BEST = 3  # of the sets that are judged
SCORES = ("error", "log_loss", "calibration_error")


def show_task(rows: list[Figures], task: str) -> None:
    """Print means over the splits, with what was reported below."""
    print(f"\n{task}: means over {len({row['split'] for row in rows})} splits")
    show("", ("error", "log loss", "ECE", "seconds"))
    show_means(rows, (*SCORES, "fit_seconds"))
    for name, figures in REPORTED.get(task, {}).items():
        show(name, figures)


def targets(rows: list[Figures]) -> list[Target]:
    """Return what is required of the default and what was measured, of sets it has.

    Peers are judged on the splits of the default, and only if they have all of them.
    """
    found: list[Target] = []
    n_best = n_judged = 0
    for task in JUDGED:
        own = [row for row in rows if row["task"] == task]
        splits = splits_of(own, DEFAULT)
        peers = [name for name in OTHERS if splits and splits_of(own, name) >= splits]
        if not peers:
            continue
        n_judged += 1
        own = [row for row in own if row["split"] in splits]
        ours = select(own, method=DEFAULT)
        best = min(mean(select(own, method=name), "log_loss") for name in peers)
        n_best += mean(ours, "log_loss") < best
        error = mean(ours, "calibration_error")
        found.append((f"{task}: calibration error", error, "at most", LARGEST_ERROR))
    if n_judged == len(JUDGED):
        found.append(("sets with the least log loss", n_best, "at least", MOST_BEST))
    return found


def splits_of(rows: list[Figures], method: str) -> set[int]:
    """Return the splits that a method has been measured on."""
    return {row["split"] for row in rows if row["method"] == method}
