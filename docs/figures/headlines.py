"""Write the measured headlines of the README, between two comments there.

Run as ``python docs/figures/headlines.py README.md``; reads benchmarks/results.
"""

import re
import statistics
import sys
from pathlib import Path
from typing import Any

from small_data_table import averages
from speed_table import BENCHMARKS, find, rate, read_record

FOLDER = "benchmarks/results"
BETWEEN = re.compile(r"(?<=<!-- headlines -->\n).*(?=<!-- end of headlines -->)", re.S)
OURS = ("ImageClassifier", "PatchGPClassifier", "network", "scattering, network")
PEERS = {"scattering, whitening, SVC": "an SVC on whitened scattering coefficients"}
SPEEDS = ("fused_cpu", "fused_cpu_intel")
FEW = 500  # images that rows of the present version have
SETS = {"mnist, 500": "MNIST", "cifar10, 500": "CIFAR-10"}


def main(target: Path) -> None:
    """Write the headlines into a text."""
    text = target.read_text(encoding="utf-8")
    target.write_text(written(text), encoding="utf-8")


def written(text: str) -> str:
    """Return a text with the headlines of the committed results."""
    lines = "".join(f"- {one()}\n" for one in HEADLINES)
    return BETWEEN.sub(lambda _: lines, text)


def record_of(name: str) -> Any:
    """Return a committed result."""
    return read_record(BENCHMARKS / "results" / f"{name}.json")


def sources(command: str, *names: str) -> str:
    """Return links to results, and the command that measures them."""
    links = ", ".join(f"[{name}.json]({FOLDER}/{name}.json)" for name in names)
    return f"({links}; `python -m benchmarks {command}`)"


def percent(share: float, digits: int = 1) -> str:
    """Return a share as text."""
    return f"{100 * share:.{digits}f} %"


def few() -> str:
    """Return accuracies with few training images."""
    rows, parts = record_of("small_data")["few_images"], []
    for data, name in (("mnist", "MNIST"), ("cifar10", "CIFAR-10")):
        found = averages(rows, data, FEW)
        ours = found["ImageClassifier"]
        others = [model for model in found if model not in OURS]
        best = PEERS.get(others[0], others[0])
        parts.append(
            f"{percent(1 - ours['error'])} of {name} in {ours['fit_cpu_seconds']:.0f} "
            f"processor seconds (the best of {len(others)} others, {best}: "
            f"{percent(1 - found[others[0]]['error'])})"
        )
    source = sources("small_data", "small_data")
    return f"**{FEW} training images**: {', and '.join(parts)} {source}."


def many() -> str:
    """Return the error of a fit to all of MNIST."""
    rows = {
        row["model"]: row
        for name in ("patches", "many_images")
        for row in record_of(name)[name]
        if (row["data"], row["n_train"]) == ("mnist", 60_000)
    }
    whole, patches = rows["ImageClassifier"], rows["patches"]
    network, source = rows["small cnn"], sources("many_images", "many_images")
    return (
        f"**60 000 images of MNIST**: `ImageClassifier` has an error of "
        f"{percent(whole['error'], 2)} and takes {whole['fit_cpu_seconds']:.0f} "
        f"processor seconds {source}; `PatchGPClassifier` has "
        f"{percent(patches['error'], 2)} in {patches['fit_seconds']:.0f} seconds of "
        f"two cores, and a small network, without augmentation, "
        f"{percent(network['error'], 2)} in {network['fit_cpu_seconds']:.0f} processor "
        f"seconds {sources('patches', 'patches')}."
    )


def guarantee() -> str:
    """Return how often sets of labels have the right one."""
    rows, parts = record_of("questions")["sets"], []
    for data, name in SETS.items():
        here = [row for row in rows if row["data"] == data]
        ours = mean_of(here, "prediction_set", "coverage_0.95")
        sizes = [
            mean_of(here, method, "size_0.95")
            for method in ("prediction_set", "MAPIE, split")
        ]
        parts.append(
            f"{percent(ours)} of {name}, with {sizes[0]:.2f} labels (split conformal "
            f"sets of MAPIE: {sizes[1]:.2f})"
        )
    return (
        f"**A guarantee**: sets of labels that promise 95 %, from 500 images and one "
        f"fit, have the right one for {', and '.join(parts)} "
        f"{sources('questions --parts sets', 'questions')}."
    )


def mean_of(rows: list[Any], method: str, score: str) -> float:
    """Return the mean of a score over draws."""
    return statistics.fmean(row[score] for row in rows if row["method"] == method)


def speed() -> str:
    """Return pairs a second, and how many times as many as those of others."""
    records = [record_of(name) for name in SPEEDS]
    cases = [find(record, "convnet", "mnist") for record in records]
    rates = [
        rate(row, record["settings"]["clock"])
        for record, case in zip(records, cases, strict=True)
        for row in case["rows"]
        if (row["code"], row["dtype"], row["n_threads"]) == ("ours", "float32", 1)
    ]
    times = {
        peer: [
            ratio
            for case in cases
            for name, ratio in case["ratios"].items()
            if re.fullmatch(rf"float32(, avx2)? / {peer}", name)
        ]
        for peer in ("torch", "cnn-gp", "neural-tangents")
    }
    told = [f"{min(x):.0f} to {max(x):.0f} times {peer}" for peer, x in times.items()]
    return (
        f"**Covariances of networks**: {min(rates) / 1e6:.1f} to "
        f"{max(rates) / 1e6:.1f} million pairs of MNIST images a second on one thread, "
        f"for seven layers. That is "
        f"{', '.join(told)}: the range over two processors, with AVX2 and with AVX-512 "
        f"{sources('fused_cpu', *SPEEDS)}."
    )


HEADLINES = (few, many, guarantee, speed)

if __name__ == "__main__":
    main(Path(sys.argv[1]))
