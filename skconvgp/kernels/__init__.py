"""Kernels: networks with infinitely many filters, and kernels for vectors."""

from skconvgp.kernels._activations import (
    GELU,
    Abs,
    Erf,
    Identity,
    LeakyReLU,
    ReLU,
    Sin,
)
from skconvgp.kernels._architectures import (
    convnet,
    dense,
    residual_convnet,
    resnet32,
    three_layer_convnet,
)
from skconvgp.kernels._base import Kernel, OnColumns, Product, Scale, Sum
from skconvgp.kernels._combinators import Residual, Sequential
from skconvgp.kernels._dropout import Dropout
from skconvgp.kernels._elementwise import Elementwise
from skconvgp.kernels._flips import FlipAverage
from skconvgp.kernels._hyperparameters import Hyperparameter
from skconvgp.kernels._layer import Layer
from skconvgp.kernels._layer_norm import LayerNorm
from skconvgp.kernels._linear import Conv2d, Dense, Flatten
from skconvgp.kernels._map_layer import Maps
from skconvgp.kernels._normalizations import (
    MaxNormalization,
    literal_max_normalization,
)
from skconvgp.kernels._optical import optical
from skconvgp.kernels._orbits import OrbitAverage
from skconvgp.kernels._patch_maps import PatchContrast, PatchWhitening
from skconvgp.kernels._patches import PatchKernel
from skconvgp.kernels._pooled_architectures import convnet_gap, myrtle
from skconvgp.kernels._pooling import AvgPool2d, GlobalAvgPool2d
from skconvgp.kernels._saturating import Sigmoid, SiLU, Softplus, Tanh
from skconvgp.kernels._stationary import matern, rbf
from skconvgp.kernels._vectors import arcsine, dot_product, polynomial

__all__ = [
    "GELU",
    "Abs",
    "AvgPool2d",
    "Conv2d",
    "Dense",
    "Dropout",
    "Elementwise",
    "Erf",
    "Flatten",
    "FlipAverage",
    "GlobalAvgPool2d",
    "Hyperparameter",
    "Identity",
    "Kernel",
    "Layer",
    "LayerNorm",
    "LeakyReLU",
    "Maps",
    "MaxNormalization",
    "OnColumns",
    "OrbitAverage",
    "PatchContrast",
    "PatchKernel",
    "PatchWhitening",
    "Product",
    "ReLU",
    "Residual",
    "Scale",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Sin",
    "Softplus",
    "Sum",
    "Tanh",
    "arcsine",
    "convnet",
    "convnet_gap",
    "dense",
    "dot_product",
    "literal_max_normalization",
    "matern",
    "myrtle",
    "optical",
    "polynomial",
    "rbf",
    "residual_convnet",
    "resnet32",
    "three_layer_convnet",
]
