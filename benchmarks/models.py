"""Models that more than one question fits."""

from typing import Any

import torch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from torch import Tensor, nn

from benchmarks.data import Array
from benchmarks.report import RESULTS, Figures, read
from skconvgp import ConvNetGPClassifier
from skconvgp.kernels import convnet, residual_convnet, resnet32
from skconvgp.transforms import ChannelWhitening, ScatteringTransform

# The networks whose speed is measured.
NETWORKS = {
    "convnet": convnet,
    "residual_convnet": residual_convnet,
    "resnet32": resnet32,
}
# A convnet with windows of 3 x 3: a weight variance of 2 in units of nine elements.
SMALL_WINDOWS: Figures = {
    "depth": 5,
    "kernel_size": 3,
    "weight_variance": 2.0 / 9.0,
    "bias_variance": 0.0,
}
# Of the rows of `regression`: the exact process with the kernel of largest evidence.
CHOSEN = "largest evidence"


def flatten(X: Array) -> Array:
    """Return images as rows."""
    return X.reshape(len(X), -1)


def of_pixels(model: Any) -> Any:
    """Return a pipeline that reads images as rows."""
    return make_pipeline(FunctionTransformer(flatten), model)


def of_standardized(model: Any) -> Any:
    """Return a pipeline that reads images as standardized rows."""
    return make_pipeline(FunctionTransformer(flatten), StandardScaler(), model)


def scattering_network() -> Any:
    """Return a network on whitened scattering coefficients, as the README has it."""
    return make_pipeline(
        ScatteringTransform(),
        ChannelWhitening(),
        ConvNetGPClassifier(convnet(depth=2, kernel_size=3)),
    )


def exact_rows(table: str) -> list[Figures]:
    """Return the rows of exact processes on a table, which `regression` measured."""
    rows = read(RESULTS / "regression.json").get("regression", [])
    return [row for row in rows if row["set"] == table]


def softmax_of(net: nn.Module, images: Tensor) -> Array:
    """Return the probabilities (n, k) that a trained network gives to images."""
    net.eval()
    with torch.no_grad():
        parts = [net(part).double().softmax(1) for part in images.split(500)]
    probabilities: Array = torch.cat(parts).numpy()
    return probabilities
