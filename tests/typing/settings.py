"""Programs that `make lint` checks with mypy: right settings, and wrong ones.

mypy fails where a wrong setting passes, because its comment is then of no use.
"""

from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageClassifier,
    ImagePart,
    ImageRegressor,
    KernelFlowsRegressor,
    NystromCompletedGP,
    PatchGPClassifier,
    gram_matrix,
)
from skconvgp.augmentation import Flip
from skconvgp.completion import Nystrom
from skconvgp.flows import Adam
from skconvgp.kernels import Conv2d, Dense, Flatten, ReLU, Sequential, convnet, rbf
from skconvgp.likelihoods import Dirichlet, RobustMax
from skconvgp.solvers import ConjugateGradient
from skconvgp.transforms import ScatteringTransform

X, y = np.zeros((2, 1, 8, 8)), np.zeros(2)


def right() -> None:
    """Make estimators with settings of all kinds."""
    ImageClassifier(noise_variance="loo", flips=False, memory_budget="2 GiB")
    part = ImagePart("scattering", ScatteringTransform(), rbf())
    ImageClassifier(["auto", part], part_weights=[0.5, 0.5], n_landmarks=np.int64(9))
    ImageClassifier(
        "patches", class_weight={"a": 2.0}, dtype="float64", device="cuda:1"
    )
    ImageRegressor(noise_variance=np.float32(0.1), amplitude=None, image_shape=(8, 8))
    ConvNetGPClassifier(convnet(), optimizer="evidence", likelihood=Dirichlet(1e-6))
    ConvNetGPClassifier("precomputed", solver=ConjugateGradient(), cache_dir=Path("a"))
    ConvNetGPRegressor(
        Sequential(Conv2d(3), ReLU(), Flatten(), Dense()),
        optimizer=Adam(),
        augment=Flip(),
        completion=Nystrom(),
        solver="cg",
        image_shape=None,
    )
    KernelFlowsRegressor(rbf() + rbf(2.0), batch_size=[20, 40])
    ConvNetGPRegressor(noise_variance=y)
    ConvNetGPRegressor(noise_variance=[0.1, 0.2])
    NystromCompletedGP(n_landmarks=50, variance="fitc")
    PatchGPClassifier(likelihood="softmax", optimizer="elbo", batch_size=64)
    PatchGPClassifier(likelihood=RobustMax(), learning_rate="auto")
    make_pipeline(ScatteringTransform(image_shape=(1, 8, 8)), ImageClassifier())
    gram_matrix(convnet(), X, memory_budget=2**30, dtype="float32")


def wrong() -> None:
    """Give settings that no estimator has."""
    ImageClassifier(noise_variance="foo")  # type: ignore[arg-type]
    ImageClassifier(flips=3.14)  # type: ignore[arg-type]
    ImageClassifier(device=7)  # type: ignore[arg-type]
    ImageClassifier(likelihood="softmax")  # type: ignore[arg-type]
    ImageClassifier("patch")  # type: ignore[arg-type]
    ImageClassifier(n_landmarks="all")  # type: ignore[arg-type]
    ImageClassifier(class_weight="equal")  # type: ignore[arg-type]
    ImageRegressor(amplitude="evidence")  # type: ignore[arg-type]
    ImageRegressor(image_shape="rgb")  # type: ignore[arg-type]
    ImageRegressor(memory_budget=[1])  # type: ignore[arg-type]
    ConvNetGPClassifier("rbf")  # type: ignore[arg-type]
    ConvNetGPClassifier(rbf)  # type: ignore[arg-type]
    ConvNetGPClassifier(optimizer="adam")  # type: ignore[arg-type]
    ConvNetGPClassifier(solver="lu")  # type: ignore[arg-type]
    ConvNetGPRegressor(completion="nystrom")  # type: ignore[arg-type]
    ConvNetGPRegressor(backend="cuda")  # type: ignore[arg-type]
    ConvNetGPRegressor(dtype=np.float32)  # type: ignore[arg-type]
    NystromCompletedGP(variance="auto")  # type: ignore[arg-type]
    PatchGPClassifier(variance="fitc")  # type: ignore[arg-type]
    gram_matrix("rbf", X)  # type: ignore[arg-type]
