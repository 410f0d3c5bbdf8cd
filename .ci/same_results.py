"""Compare what two checkouts compute: results to the last bit, time and memory.

    python .ci/same_results.py ../before .          # two checkouts, before and after
    python .ci/same_results.py ../before . --only nystrom

Each case is fitted in a process of its own, first by one checkout and then by the
other; both must have the compiled extension beside their sources, or neither. Cases
with real images need the folder that SKCONVGP_DATA names, and are left out without it.
"""

import argparse
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.base import clone

SEED = 0


def cases():
    """Return functions that return estimator, X, y and new samples, by name."""
    from skconvgp import (
        ConvNetGPClassifier,
        ConvNetGPRegressor,
        KernelFlowsClassifier,
        KernelFlowsRegressor,
        NystromCompletedGP,
        NystromCompletedGPRegressor,
    )
    from skconvgp.completion import (
        CoarseKernel,
        EnsembleNystrom,
        IterativeSVD,
        MatrixFactorization,
        NearestNeighbors,
        Nystrom,
        SoftImpute,
        SubsetOfData,
    )
    from skconvgp.datasets import load_digits_images
    from skconvgp.flows import LBFGS, Adam
    from skconvgp.kernels import convnet, rbf
    from skconvgp.solvers import ConjugateGradient

    X, y = load_digits_images(return_X_y=True)
    network = convnet(depth=2, kernel_size=3)

    def digits(n, estimator, targets=y):
        estimator.random_state = SEED
        return estimator, X[:n], targets[:n], X[1200:1300]

    numbers = np.sin(y) + X.mean(axis=tuple(range(1, X.ndim)))
    classifier = {
        "default": {},
        "two classes": {},
        "loo noise": {"noise_variance": "loo"},
        "evidence": {"optimizer": "evidence"},
        "cg": {"solver": ConjugateGradient(rank=30), "noise_variance": 1e-2},
        "cg without a matrix": {
            "solver": ConjugateGradient(rank=30),
            "noise_variance": 1e-2,
            "memory_budget": "200 KiB",
        },
        "dirichlet": {"likelihood": "dirichlet"},
        "laplace": {"likelihood": "laplace"},
        "laplace, evidence": {"likelihood": "laplace", "optimizer": "evidence"},
        "dirichlet, nystrom": {"likelihood": "dirichlet", "completion": Nystrom()},
    }
    completions = [
        Nystrom(n_landmarks=60),
        EnsembleNystrom(),
        SubsetOfData(),
        IterativeSVD(20),
        SoftImpute(),
        MatrixFactorization(20),
        CoarseKernel(),
        CoarseKernel(exact=Nystrom(n_landmarks=40)),
        NearestNeighbors(),
    ]
    found = {}
    for name, settings in classifier.items():
        labels = y % 2 if name == "two classes" else y
        found[name] = digits, 300, ConvNetGPClassifier(network, **settings), labels
    for completion in completions:
        name = f"completion {completion!r}"
        settings = {"completion": completion, "observed_fraction": 0.4}
        found[name] = digits, 300, ConvNetGPClassifier(network, **settings)
        found[f"{name}, regression"] = (
            digits,
            200,
            ConvNetGPRegressor(network, **settings),
            numbers,
        )
    found["regression"] = digits, 300, ConvNetGPRegressor(network), numbers
    found["rows"] = digits, 300, ConvNetGPRegressor(rbf(), image_shape=None), numbers
    found["loo search"] = (
        digits,
        200,
        ConvNetGPRegressor(rbf(), optimizer="loo", n_restarts_optimizer=1),
        numbers,
    )
    for variance in ("dtc", "sor", "fitc"):
        nystrom = NystromCompletedGP(network, n_landmarks=60, variance=variance)
        found[f"nystrom {variance}"] = digits, 400, nystrom
    found["nystrom regression"] = (
        digits,
        400,
        NystromCompletedGPRegressor(network, n_landmarks=60),
        numbers,
    )
    found["flows"] = (
        digits,
        300,
        KernelFlowsClassifier(network, optimizer=Adam(max_iter=10), batch_size=60),
    )
    found["flows regression"] = (
        digits,
        300,
        KernelFlowsRegressor(optimizer=LBFGS(max_iter=5), batch_size=50),
        numbers,
    )
    folder = os.environ.get("SKCONVGP_DATA")
    if folder and (Path(folder) / "mnist.npz").exists():
        found["MNIST 5000"] = mnist, 5000, ConvNetGPClassifier(noise_variance=1e-4)
        found["MNIST 2000"] = mnist, 2000, ConvNetGPClassifier()
        found["MNIST 10000, nystrom"] = (
            mnist,
            10_000,
            NystromCompletedGP(n_landmarks=300),
        )
    return found


def mnist(n, estimator):
    """Return a problem with the first n images of MNIST."""
    data = np.load(Path(os.environ["SKCONVGP_DATA"]) / "mnist.npz")
    estimator.random_state = SEED
    X, new = (data[name][:, None] / 255.0 for name in ("x_train", "x_test"))
    return estimator, X[:n], data["y_train"][:n], new[:500]


def results(name):
    """Return arrays, seconds and bytes of a case."""
    make, *arguments = cases()[name]
    estimator, X, y, new = make(*arguments)
    clone(estimator).fit(X[:60], y[:60])  # what is loaded and compiled at first use
    start = time.perf_counter()
    estimator.fit(X, y)
    seconds = time.perf_counter() - start
    arrays = {"mean": estimator.predict_latent(new)}
    arrays["std"] = estimator.predict_latent(new, return_std=True)[1]
    arrays["noise"] = np.array(estimator.noise_variance_)
    arrays["amplitude"] = np.array(estimator.amplitude_)
    if hasattr(estimator, "dual_coef_"):
        arrays["cov"] = estimator.predict_latent(new[:40], return_cov=True)[1]
        arrays["samples"] = estimator.sample_y(new[:20], 3, random_state=1)
        arrays["gradient"] = estimator.latent_gradient(new[:2])
    if hasattr(estimator, "predict_proba"):
        arrays["probabilities"] = estimator.predict_proba(new)
        arrays["left out"] = estimator.loo_predict_proba()
    else:
        arrays["left out"] = np.stack(estimator.loo_predict(return_std=True))
    arrays["evidence"] = np.array(estimator.log_marginal_likelihood())
    if hasattr(estimator, "partial_fit"):
        estimator.partial_fit(X[: len(X) // 2], y[: len(X) // 2])
        arrays["more"] = estimator.predict_latent(new, return_std=True)[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return arrays, seconds, peak


def run(checkout, name):
    """Return what a checkout computes for a case, in a process of its own."""
    with tempfile.NamedTemporaryFile() as file:
        environment = os.environ | {"PYTHONPATH": str(Path(checkout).resolve())}
        command = [sys.executable, "-W", "ignore", __file__, "--write", file.name, name]
        subprocess.run(command, check=True, env=environment, cwd=checkout)
        return pickle.loads(Path(file.name).read_bytes())


def compare(name, before, after):
    """Print how far results are from each other; return whether they are the same."""
    (old, old_seconds, old_peak), (new, seconds, peak) = before, after
    differing = {
        key: float(np.abs(new[key] - old[key]).max())
        for key in old
        if not np.array_equal(old[key], new.get(key), equal_nan=True)
    }
    verdict = "same" if not differing else f"DIFFERENT {differing}"
    print(
        f"{name}: {verdict}; time x{seconds / old_seconds:.2f} ({seconds:.1f} s), "
        f"memory x{peak / old_peak:.2f} ({peak / 2**10:.0f} MiB)",
        flush=True,
    )
    return not differing


def main():
    """Compare all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    arguments = parser.parse_args()
    names = [name for name in cases() if arguments.only in name]
    pairs = ((name, run(arguments.before, name)) for name in names)
    same = [compare(name, before, run(arguments.after, name)) for name, before in pairs]
    print(f"{sum(same)} of {len(same)} cases are the same to the last bit")
    return 0 if all(same) else 1


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        Path(sys.argv[2]).write_bytes(pickle.dumps(results(sys.argv[3])))
    else:
        sys.exit(main())
