"""Gaussian processes on patches beside what a user would try first.

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz> python benchmarks/patches.py

Each row fits defaults (or the settings that its name states) to the first n training
images and judges on the official test images, or on 5000 other rectangles: error,
negative log probability of the true class, calibration error, seconds and peak memory.
Each row runs in a process of its own. Prints a table and writes
benchmarks/results/patches.json after each row; rows can run alone:

    python benchmarks/patches.py --data mnist --sizes 1000 --models patches svc

The published rows are those of van der Wilk, Rasmussen and Hensman (2017), section 4,
Table 1 and Figure 3: of all training images, by hours on a GPU.
"""

import argparse
from pathlib import Path

from calibrating.report import read
from completing.report import dated, put, save
from patching.models import MODELS, SIZES
from patching.rows import PUBLISHED, measure
from peers.machine import machine, versions

RESULTS = Path(__file__).parent / "results" / "patches.json"
PART, KEYS = "patches", ("data", "n_train", "model")


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--sizes", nargs="+", type=int)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    record = read(options.output, PART)
    record |= {"versions": versions(), "machine": machine()}
    print(
        f"{'':<54}{'error %':>8}{'NLPP':>8}{'ECE':>8}{'fit s':>8}{'predict s':>11}"
        f"{'GiB':>7}"
    )
    for data in options.data:
        for n_train in options.sizes or SIZES[data]:
            for model in options.models:
                if n_train > MODELS[model].most or data not in MODELS[model].data:
                    continue
                row = measure(data, n_train, model)
                put(record[PART], dated(row), *KEYS)
                save(options.output, record)
                print(
                    f"{data + ' ' + str(n_train) + ', ' + model:<54}"
                    f"{100 * row['error']:>8.2f}{shown(row['log_loss'])}"
                    f"{shown(row['calibration_error'])}{row['fit_seconds']:>8.1f}"
                    f"{row['predict_seconds']:>11.1f}"
                    f"{row['peak_memory'] / 2**30:>7.1f}",
                    flush=True,
                )
        for name, error, loss in PUBLISHED[data]:
            print(f"{data + ', published, ' + name:<54}{error:>8.2f}{shown(loss)}")


def shown(value: float | None) -> str:
    """Return a figure as text; some models have none."""
    return f"{'' if value is None else format(value, '.3f'):>8}"


if __name__ == "__main__":
    main()
