"""Draw the accuracy of classifiers of few images against their processor seconds.

Run as ``python docs/figures/accuracy_seconds.py <target>``; reads
benchmarks/results/small_data.json. Phones show a second picture, whose panels are below
each other.
"""

import sys
from itertools import chain
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from drawing import BLUE, GREEN, GREY, ORANGE, PURPLE
from small_data_table import DATA, RESULTS, averages, places
from speed_table import read_record

PANELS = [("mnist", 1000), ("cifar10", 500), ("cifar10", 1000)]
TICKS = [0.01, 0.1, 1, 10, 100, 1000]
STYLES = {  # in the order of the legend: colour and marker, ours are filled
    "ImageClassifier": (ORANGE, "*"),
    "scattering, network": (PURPLE, "D"),
    "PatchGPClassifier": (BLUE, "s"),
    "network": (GREEN, "o"),
    "scattering, SVC": (GREY, "D"),
    "scattering, whitening, SVC": (GREY, "d"),
    "CNN, ten times the seconds": (GREY, "P"),
    "CNN, same seconds": (GREY, "X"),
    "SVC": (GREY, "o"),
    "gradient boosting": (GREY, "^"),
    "nearest neighbours": (GREY, "v"),
    "logistic regression": (GREY, "s"),
}
NAMES = {
    "network": "ConvNetGPClassifier",
    "scattering, network": "scattering, ConvNetGPClassifier",
}


def main(target: Path) -> None:
    """Draw and save the panels that have a row of ImageClassifier."""
    record = read_record(RESULTS)
    rows = record["few_images"] if record else []
    measured = places([row for row in rows if row["model"] == "ImageClassifier"])
    shown = [place for place in PANELS if place in measured] or PANELS
    mpl.rcParams.update({"svg.hashsalt": "skconvgp", "font.family": "DejaVu Sans"})
    save(target, rows, [shown], size=(11.0, 4.6), share=0.2)
    below = [[panel] for panel in shown]
    size = (4.2, 2.6 + 3.1 * len(below))
    save(
        target.with_stem(f"{target.stem}_phone"), rows, below, size, share=2.6 / size[1]
    )


def save(
    target: Path,
    rows: list[Any],
    grid: list[list[tuple[str, int]]],
    size: tuple[float, float],
    share: float,
) -> None:
    """Draw and save a grid of panels, with a legend in a share of the height."""
    n_rows, n_columns = len(grid), len(grid[0])
    figure, panels = plt.subplots(n_rows, n_columns, figsize=size, squeeze=False)
    for axes, (data, n_train) in zip(panels.flat, chain(*grid), strict=True):
        draw(axes, averages(rows, data, n_train))
        axes.set_title(f"{DATA[data]}, {n_train} images", fontsize=11)
        axes.set_xlabel("processor seconds")
    for axes in panels[:, 0]:
        axes.set_ylabel("accuracy in percent")
    marks = {
        name: mark
        for axes in panels.flat
        for mark, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    order = [NAMES.get(name, name) for name in STYLES if NAMES.get(name, name) in marks]
    figure.legend(
        [marks[name] for name in order],
        order,
        loc="lower center",
        ncols=4 if n_columns > 1 else 1,
        frameon=False,
        fontsize=9,
    )
    figure.tight_layout(rect=(0, share, 1, 1))
    dates = {"metadata": {"Date": None}} if target.suffix == ".svg" else {"dpi": 110}
    figure.savefig(target, **dates)
    plt.close(figure)


def draw(axes: Any, found: dict[str, Any]) -> None:
    """Draw a mark for each model: seconds of a fit and of 1000 predictions."""
    for name, (color, marker) in STYLES.items():
        if name not in found:
            continue
        row = found[name]
        seconds = row["fit_cpu_seconds"] + row["predict_cpu_seconds_of_1000"]
        is_ours = color != GREY
        axes.plot(
            seconds,
            100 * (1 - row["error"]),
            marker,
            color=color,
            fillstyle="full" if is_ours else "none",
            markersize=14 if marker == "*" else 8,
            label=NAMES.get(name, name),
        )
    axes.set_xscale("log")
    axes.set_xticks(TICKS, labels=[f"{tick:g}" for tick in TICKS])
    axes.set_xticks([], minor=True)
    axes.grid(color="#eeeeee")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
