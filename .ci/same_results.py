"""Compare what two checkouts compute: numbers to the last bit, time, calls and memory.

    python .ci/same_results.py ../before .          # two checkouts, before and after
    python .ci/same_results.py ../before . --only nystrom

One small model for each cell of `tests/helpers/cells.py`, bases x labels, is fitted,
copied, extended and drawn from by both checkouts, each in one process on one thread.
Both must have the compiled extension beside their sources, or neither. Numbers,
refusals and warnings are compared; time is the ratio of medians of turns that the two
take, and calls are those of Python functions of the package. The exit status tells
whether all numbers are the same. `--large` takes models of thousands of images instead,
from the folder that SKCONVGP_DATA names.
"""

import argparse
import contextlib
import dataclasses
import os
import pickle
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
N, N_NEW = 120, 30
METHODS = ("joint", "pathwise", "bootstrap")  # of draws
FEW, N_FEATURES = 10, 300  # new samples of draws and covariances; of functions
COSTLY = ("samples", "gradient")
TURNS = ((0.05, 5), (0.3, 3), (np.inf, 1))  # of fits of fewer seconds
MORE, LEAST = 1.05, 2**19  # ratio, and bytes, that the summary names
MEASURED = ("seconds", "peak_memory")  # in reports, in other numbers each time


def large_cells():
    """Return models of thousands of images, whose time and memory tell more."""
    from skconvgp import ConvNetGPClassifier, NystromCompletedGP, PatchGPClassifier
    from skconvgp.kernels import PatchKernel, convnet, rbf
    from tests.helpers.cells import Cell

    data = np.load(Path(os.environ["SKCONVGP_DATA"]) / "mnist.npz")
    X, new = (data[name][:, None] / 255.0 for name in ("x_train", "x_test"))

    class Large(Cell):
        def data(self, n, n_new):
            n = int(self.labels)
            return X[:n], data["y_train"][:n], new[:n_new]

    network = convnet(depth=2, kernel_size=3)
    patches = PatchKernel(rbf(3.0), patch_size=5)
    return [
        Large("kernel", "1000", ConvNetGPClassifier(network, noise_variance=1e-4)),
        Large("labels", "1000", ConvNetGPClassifier(rbf(9.0), likelihood="dirichlet")),
        Large("landmarks", "4000", NystromCompletedGP(network, n_landmarks=100)),
        Large("patches", "2000", PatchGPClassifier(patches, n_inducing=100)),
    ]


def attributes(fitted):
    """Return what the attributes of an estimator and of its report say."""
    found = {name: value for name, value in vars(fitted).items() if name[-1] == "_"}
    report = found.pop("fit_report_", None)
    if dataclasses.is_dataclass(report):
        found |= {
            f"report {one.name}": getattr(report, one.name)
            for one in dataclasses.fields(report)
            if not one.name.endswith(MEASURED)
        }
    for name, value in found.items():
        with contextlib.suppress(ValueError):  # of what is ragged
            array = np.asarray(value)
            if array.dtype.kind in "biufU":
                yield name, array
                continue
        if " at 0x" not in repr(value):
            yield name, np.asarray(repr(value))


def calls_of(cell, new):
    """Return what public methods are asked for, by name."""
    few, all_diag, few_diag = new[:FEW], cell.diag(len(new)), cell.diag(FEW)

    def latent(how, samples=new, diag=all_diag):
        return lambda gp: gp.predict_latent(samples, **{how: True}, **diag)

    calls = {
        "mean": lambda gp: gp.predict_latent(new),
        "std": latent("return_std"),
        "std with noise": lambda gp: gp.predict_latent(
            new, return_std=True, noise=True, **all_diag
        ),
        "cov": latent("return_cov", few, few_diag),
        "predictions": lambda gp: gp.predict(new),
        "probabilities": lambda gp: gp.predict_proba(new),
        "decision": lambda gp: gp.decision_function(new),
        "interval": lambda gp: gp.predict_interval(new),
        "left out": lambda gp: gp.loo_predict(),
        "left out std": lambda gp: gp.loo_predict(return_std=True),
        "left out probabilities": lambda gp: gp.loo_predict_proba(),
        "evidence": lambda gp: gp.log_marginal_likelihood(),
        "elbo": lambda gp: gp.elbo(),
        "gradient": lambda gp: gp.latent_gradient(new[:2]),
    }
    for method in METHODS:
        calls[f"samples, {method}"] = lambda gp, method=method: gp.sample_y(
            few, 3, random_state=1, method=method, n_features=N_FEATURES
        )
    return calls


def numbers(cell, fitted, new, *, costly=True):
    """Return arrays by name; a refusal is its text."""
    found = dict(attributes(fitted))
    for name, call in calls_of(cell, new).items():
        if name.startswith(COSTLY) and not costly:
            continue
        try:
            value = call(fitted)
        except (AttributeError, TypeError, ValueError, RuntimeError) as refusal:
            value = str(refusal) if isinstance(refusal, ValueError) else "refused"
        parts = value if isinstance(value, tuple) else (value,)
        found |= {f"{name}{i or ''}": np.asarray(one) for i, one in enumerate(parts)}
    return found


def work_of(cell):
    """Return numbers of a cell by name, and costs of its fit."""
    from tests.helpers.resident import peak_of

    X, y, new = cell.data(N, N_NEW)
    half, costs, found = len(y) // 2, {}, {}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        # What is loaded and compiled at first use is no memory of the others.
        costs["calls"] = n_calls(lambda: cell.new().fit(X, y))
        gp = cell.new()
        costs["memory"] = peak_of(lambda: gp.fit(X, y))
        costs["memory of use"] = peak_of(lambda: found.update(numbers(cell, gp, new)))
        again = numbers(cell, pickle.loads(pickle.dumps(gp)), new, costly=False)
        kept = {name: found[name] for name in again}
        found["pickle"] = np.array(not differences(kept, again))
        if cell.can_grow and len(y) == N:
            grown = cell.new()
            for batch in cell.batches(N, half, half + 3):
                cell.grow(grown, *batch)
            less = new[:, :half] if cell.is_matrix else new
            more = numbers(cell, grown, less)
            found |= {f"grown: {name}": value for name, value in more.items()}
    found["warnings"] = np.array(sorted({str(one.message) for one in told}), dtype=str)
    return found, costs


def n_calls(call):
    """Return how many Python functions of the package a call runs."""
    import skconvgp

    package, count = str(Path(skconvgp.__file__).parent), 0

    def record(frame, event, _):
        nonlocal count
        is_own = frame.f_code.co_filename.startswith(package)
        count += event == "call" and is_own and frame.f_code.co_name[0] != "<"

    sys.setprofile(record)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


def turn(cell):
    """Return the processor's seconds of a fit, and of predictions."""
    (X, y, new), gp = cell.data(N, N_NEW), cell.new()
    times = [time.process_time()]
    for call in (
        lambda: gp.fit(X, y),
        lambda: gp.predict_latent(new, return_std=True, **cell.diag(len(new))),
    ):
        call()
        times.append(time.process_time())
    return np.diff(times)


def serve(checkout, reader, writer, is_large):
    """Answer requests for a cell with what a checkout computes."""
    sys.path.insert(0, checkout)
    import torch

    import skconvgp

    assert Path(skconvgp.__file__).is_relative_to(checkout), skconvgp.__file__
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(ROOT))  # the list of cells is that of this file
    from tests.helpers.cells import CELLS

    cells = {cell.name: cell for cell in (large_cells() if is_large else CELLS)}
    answers = {"names": lambda _: list(cells), "work": work_of, "turn": turn}
    with os.fdopen(reader, "rb") as requests, os.fdopen(writer, "wb") as replies:
        while (request := pickle.load(requests)) is not None:
            what, name = request
            try:
                answer = answers[what](cells.get(name))
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"
            pickle.dump(answer, replies)
            replies.flush()


class Checkout:
    """A process that computes with a checkout."""

    def __init__(self, folder, options):
        from tests.helpers.resident import FREE_AT_ONCE

        (theirs, to_it), (from_it, ours) = os.pipe(), os.pipe()
        folder = str(Path(folder).resolve())
        command = [sys.executable, __file__, "--serve", folder, str(theirs), str(ours)]
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            command + options,
            pass_fds=(theirs, ours),
            cwd=folder,
            env=os.environ | FREE_AT_ONCE | threads,
        )
        os.close(theirs)
        os.close(ours)
        self.requests, self.replies = os.fdopen(to_it, "wb"), os.fdopen(from_it, "rb")

    def ask(self, *request):
        """Return the answer to a request."""
        self.send(request)
        return pickle.load(self.replies)

    def send(self, request):
        """Send a request; None ends the process."""
        pickle.dump(request, self.requests)
        self.requests.flush()


def differences(before, after):
    """Return how large differences are, or what else differs, by name."""
    found = {}
    for name in before | after:
        if name not in before or name not in after:
            found[name] = "missing" if name in before else "new"
            continue
        old, new = before[name], after[name]
        if old.dtype.kind == new.dtype.kind == "U":
            if not np.array_equal(old, new):
                found[name] = "other words"
        elif (old.dtype, old.shape) != (new.dtype, new.shape):
            found[name] = f"{old.dtype}{old.shape} is {new.dtype}{new.shape}"
        elif old.dtype.kind != "f":
            if not np.array_equal(old, new):
                found[name] = "other values"
        elif not np.array_equal(old, new, equal_nan=True):
            size = np.nanmax(np.abs(old), initial=0.0) or 1.0
            found[name] = float(np.nanmax(np.abs(new - old), initial=0.0) / size)
    return found


def verdict(differing):
    """Return a text with the largest difference first, and the names of others."""
    if not differing:
        return "same"
    names = sorted(
        differing,
        key=lambda name: (
            differing[name] if isinstance(differing[name], float) else -1.0
        ),
        reverse=True,
    )
    size = differing[names[0]]
    size = f"{size:.1e}" if isinstance(size, float) else size
    others = f", and {', '.join(names[1:])}" if names[1:] else ""
    return f"DIFFERENT {names[0]} ({size}){others}"


def compare(name, before, after):
    """Print how far two checkouts are from each other for a cell; return ratios."""
    works = [one.ask("work", name) for one in (before, after)]
    if isinstance(works[0], str) or isinstance(works[1], str):
        failures = [one if isinstance(one, str) else "works" for one in works]
        print(f"{name}: {'FAILED in both' if failures[0] == failures[1] else failures}")
        return False, {}
    (old, old_costs), (new, costs) = works
    seconds, both = [[], []], [before, after]
    n_turns = 1
    while len(seconds[0]) < n_turns:
        for i in (0, 1) if len(seconds[0]) % 2 else (1, 0):
            seconds[i].append(both[i].ask("turn", name))
        n_turns = next(n for most, n in TURNS if seconds[0][0][0] < most)
    medians = [np.median(one, axis=0) for one in seconds]
    ratios = dict(zip(("fit", "use"), medians[1] / medians[0], strict=True))
    for cost in costs:
        ratios[cost] = max(costs[cost], 1) / max(old_costs[cost], 1)
    is_much = {"memory", "memory of use"} & {
        cost for cost in costs if costs[cost] - old_costs[cost] > LEAST
    }
    differing = differences(old, new)
    print(
        f"{name}: {verdict(differing)}; fit x{ratios['fit']:.2f} "
        f"({1e3 * medians[1][0]:.0f} ms), use x{ratios['use']:.2f}, "
        f"calls x{ratios['calls']:.2f}, memory x{ratios['memory']:.2f} "
        f"({costs['memory'] / 2**20:.1f} MiB), of use x{ratios['memory of use']:.2f}",
        flush=True,
    )
    more = {cost for cost in is_much | {"calls"} if ratios[cost] > MORE}
    return not differing, {"fit": ratios["fit"], "use": ratios["use"], "more": more}


def main():
    """Compare all cells."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--only", default="", help="cells whose name has this in it")
    parser.add_argument("--large", action="store_true", help="thousands of images")
    arguments = parser.parse_args()
    folders = arguments.before, arguments.after
    built = [any(Path(one).glob("skconvgp/backends/_native.*")) for one in folders]
    if built[0] != built[1]:
        parser.error(f"{folders[built[0]]} has no compiled extension, the other has.")
    options = ["--large"] if arguments.large else []
    both = [Checkout(one, options) for one in folders]
    names = [name for name in both[1].ask("names", "") if arguments.only in name]
    found = {name: compare(name, *both) for name in names}
    for one in both:
        one.send(None)
        one.process.wait()
    same = [name for name in found if found[name][0]]
    print(f"\n{len(same)} of {len(found)} cells are the same to the last bit.")
    works = {name: ratios for name, (_, ratios) in found.items() if ratios}
    for what in ("fit", "use"):
        times = [ratios[what] for ratios in works.values()]
        if times:
            print(f"Time of {what}: x{np.median(times):.2f} in the median cell.")
    for name, ratios in works.items():
        if ratios["more"]:
            print(f"More {', '.join(sorted(ratios['more']))}: {name}.")
    return 0 if len(same) == len(found) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], *map(int, sys.argv[3:5]), "--large" in sys.argv)
    else:
        sys.path.insert(0, str(ROOT))
        sys.exit(main())
