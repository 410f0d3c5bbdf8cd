"""Does GPflow have the same bound of variational inference, for the same q?

GPflow needs TensorFlow and has an environment of its own. There the second line runs:

    python -m benchmarks twin_gpflow write twin.npz
    python -m benchmarks twin_gpflow check twin.npz

The first line fits PatchGPClassifier to some digits and writes images, inducing patches
and q. The second one gives them to GPflow's SVGP with the kernel `Convolutional` and
`InducingPatches`, prints both bounds and writes benchmarks/results/twin_gpflow.json.
GPflow divides covariances by the squared number of patches P where this package divides
by P, so that its variance is P times as large. It clips probabilities of the robust-max
at 1e-4 and integrates with 20 nodes, so that bounds of the robust-max agree less well.
"""

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.report import RESULTS

SIDE, PATCH, LENGTH, EPSILON = 8, 5, 1.5, 1e-3
CASES = {"bernoulli": (3, 8), "robustmax": (0, 1, 2)}
N, M, AMPLITUDE = 60, 6, 4.0


def write(path: Path) -> None:
    """Fit, and write what GPflow needs."""
    from sklearn.exceptions import ConvergenceWarning

    from skconvgp import PatchGPClassifier
    from skconvgp.datasets import load_digits_images
    from skconvgp.kernels import PatchKernel, rbf

    X, y = load_digits_images(return_X_y=True)
    found: dict[str, Any] = {}
    for name, classes in CASES.items():
        some = np.isin(y, classes)
        images, labels = X[some][:N].astype(np.float64), y[some][:N]
        gp = PatchGPClassifier(
            PatchKernel(rbf(LENGTH), patch_size=PATCH, location_lengthscale=None),
            n_inducing=M,
            likelihood=name,
            variance="dtc",  # as GPflow counts what inducing patches leave out
            amplitude=AMPLITUDE,
            dtype="float64",
            random_state=0,
        )
        with warnings.catch_warnings():  # any q will do
            warnings.simplefilter("ignore", ConvergenceWarning)
            gp.fit(images, labels)
        inducing = gp._process.basis.inducing
        root, factors = math.sqrt(AMPLITUDE), gp.solver_state_.factors
        n_latents = len(factors)
        found[f"{name}_images"] = images.reshape(len(images), -1)
        found[f"{name}_codes"] = np.searchsorted(gp.classes_, labels)
        found[f"{name}_patches"] = inducing.patches.reshape(len(inducing.patches), -1)
        found[f"{name}_lift"] = inducing.lift
        found[f"{name}_unit"] = inducing.unit
        found[f"{name}_mean"] = gp.dual_coef_[:, -n_latents:] / root
        found[f"{name}_factors"] = factors
        found[f"{name}_bound"] = gp.elbo()
    np.savez(path, **found)


def check(path: Path) -> None:
    """Evaluate GPflow's bound, and print both."""
    import gpflow
    import tensorflow as tf
    from gpflow.inducing_variables import InducingPatches
    from gpflow.kernels import Convolutional, SquaredExponential

    gpflow.config.set_default_float(np.float64)
    gpflow.config.set_default_jitter(1e-12)
    n_patches = (SIDE - PATCH + 1) ** 2
    file = np.load(path)
    record: dict[str, Any] = {"gpflow": gpflow.__version__}
    for name, classes in CASES.items():
        part = {key.removeprefix(f"{name}_"): file[key] for key in file if name in key}
        variance = AMPLITUDE * n_patches / float(part["unit"])
        base = SquaredExponential(variance=variance, lengthscales=LENGTH)
        kernel = Convolutional(base, [SIDE, SIDE], [PATCH, PATCH])
        patches = part["patches"]
        squares = ((patches[:, None] - patches) ** 2).sum(2)
        gram = np.exp(-squares / (2.0 * LENGTH**2))
        # Coefficients u of whitened features become responses to inducing patches.
        colour = math.sqrt(variance) * gram @ part["lift"]
        covariances = [
            colour @ np.linalg.inv(factor @ factor.T) @ colour.T
            for factor in part["factors"]
        ]
        likelihood = gpflow.likelihoods.Bernoulli(
            invlink=lambda f: 0.5 * tf.math.erfc(-f / math.sqrt(2.0))
        )
        if name == "robustmax":
            link = gpflow.likelihoods.RobustMax(len(classes), epsilon=EPSILON)
            likelihood = gpflow.likelihoods.MultiClass(len(classes), invlink=link)
        model = gpflow.models.SVGP(
            kernel,
            likelihood,
            InducingPatches(patches),
            num_latent_gps=len(covariances),
            q_mu=colour @ part["mean"],
            q_sqrt=np.stack([np.linalg.cholesky(one) for one in covariances]),
            whiten=False,
        )
        codes = part["codes"].astype(np.float64)[:, None]
        theirs = float(model.elbo((part["images"], codes)))
        ours = float(part["bound"])
        record[name] = {"here": ours, "gpflow": theirs}
        print(
            f"{name}: here {ours:.8g}, GPflow {theirs:.8g}, {theirs - ours:.2g} apart"
        )
    report.write(RESULTS / "twin_gpflow.json", record)
