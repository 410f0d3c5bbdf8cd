"""Which network `ConvNetGPClassifier` should take by default, by left-out images.

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz> \\
        python benchmarks/default_network.py

Fits classifiers to draws of digits, MNIST and CIFAR-10 with equally many images of each
class, and judges them by their leave-one-out predictions: no test image is seen.
Candidates flatten the last map (the default), divide covariances by the deviations of
both images, or average the last map locally, with windows of 7x7 or of 3x3 pixels.
500 and 1000 images take two minutes of a core. Local averages of 5000 images take a
quarter of an hour:

    python benchmarks/default_network.py --sizes 500 1000 5000

Each row is written to benchmarks/results/default_network.json at once and is skipped
the next time.
"""

import argparse
import time
from pathlib import Path

import torch
from calibrating.report import judge, read
from calibrating.source import Figures
from completing.report import dated, put, save
from few_images.draws import SIZES, split
from peers.machine import machine, versions
from peers.report import find

from skconvgp import ConvNetGPClassifier
from skconvgp.kernels import MaxNormalization, convnet

RESULTS = Path(__file__).parent / "results" / "default_network.json"
PART, KEYS = "networks", ("data", "n_train", "draw", "kernel")
SMALL = {
    "depth": 5,
    "kernel_size": 3,
    "weight_variance": 2.0 / 9.0,
    "bias_variance": 0.0,
}
KERNELS = {
    "convnet()": convnet(),
    "MaxNormalization(convnet())": MaxNormalization(convnet()),
    "convnet(), local average": convnet(pooling="local", radius=1),
    "windows of 3x3": convnet(**SMALL),
    "windows of 3x3, local average": convnet(**SMALL, pooling="local", radius=1),
}
SHOWN = ("loo_error", "loo_log_loss", "fit_cpu_seconds")


def main() -> None:
    """Measure, print and save."""
    options = parse()
    torch.set_num_threads(1)
    record = read(options.output, PART)
    record |= {"versions": versions(), "machine": machine()}
    print(f"{'':<58}" + "".join(f"{name:>17}" for name in SHOWN))
    for data in options.data:
        for n_train in sorted(set(options.sizes) & set(SIZES[data])):
            for kernel in options.kernels:
                place = dict(zip(KEYS, (data, n_train, 0, kernel), strict=True))
                row = find(record[PART], **place)
                if row is None:
                    row = dated(place | measured(place))
                    put(record[PART], row, *KEYS)
                    save(options.output, record)
                cells = "".join(f"{row[name]:>17.4f}" for name in SHOWN)
                print(f"{f'{data} {n_train}, {kernel}':<58}{cells}", flush=True)


def measured(place: Figures) -> Figures:
    """Return the scores of left-out images, and the seconds of the fit."""
    images = split(place["data"], place["n_train"], place["draw"])
    start = time.process_time()
    gp = ConvNetGPClassifier(KERNELS[place["kernel"]]).fit(images.X, images.y)
    seconds = time.process_time() - start
    scores = judge(images.y, gp.loo_predict_proba())
    noise = float(gp.noise_variance_)
    return {
        "loo_error": scores["error"],
        "loo_log_loss": scores["log_loss"],
        "noise_variance": noise,
        "fit_cpu_seconds": seconds,
    }


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", nargs="+", choices=SIZES, default=list(SIZES))
    add("--sizes", nargs="+", type=int, default=[500, 1000])
    add("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    add("--output", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
