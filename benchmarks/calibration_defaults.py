"""Calibration errors of the defaults, beside what chance makes of a perfect model.

    SKCONVGP_DATA=<folder with cifar10.npz> python benchmarks/calibration_defaults.py

Takes five minutes on one core. An estimate from n test samples in 15 bins is above zero
for a perfect model too: "by chance" is its mean for labels that are drawn from the
probabilities themselves. Prints a table and writes
benchmarks/results/calibration_defaults.json after each set. Each can run alone:

    python benchmarks/calibration_defaults.py --sets "26 classes" --seeds 12
"""

import argparse
from pathlib import Path

from calibrating.defaults import FEW, SETS, load, measure
from calibrating.report import read
from completing.report import dated, put, save
from peers.machine import machine, versions

RESULTS = Path(__file__).parent / "results" / "calibration_defaults.json"
PART, KEYS = "defaults", ("set", "seed", "likelihood")


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[11, 12])
    parser.add_argument("--n-test", type=int, default=10_000)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    record = read(options.output, PART)
    record |= {"versions": versions(), "machine": machine()}
    print(
        f"{'':<42}{'error':>7}{'by chance':>11}  {FEW} test samples: error, by chance"
    )
    for name in options.sets:
        seeds = options.seeds[:1] if name.startswith("CIFAR") else options.seeds
        for seed in seeds:
            for row in measure(load(name, seed, options.n_test)):
                put(record[PART], dated(row), *KEYS)
                save(options.output, record)
                print(
                    f"{name + ', ' + row['likelihood'] + f', {seed}':<42}"
                    f"{row['calibration_error']:>7.3f}{row['by_chance']:>11.3f}"
                    f"{row['calibration_error_of_few']:>30.3f}"
                    f"{row['by_chance_of_few']:>11.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
