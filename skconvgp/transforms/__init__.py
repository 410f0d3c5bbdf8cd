"""Transformers of images, and of files of pictures: images out."""

from skconvgp.transforms._channels import ChannelScaler, ChannelWhitening
from skconvgp.transforms._reading import ReadImages
from skconvgp.transforms._scattering import ScatteringTransform
from skconvgp.transforms._whole import (
    ContrastNormalization,
    Downsample,
    ZCAWhitening,
)

__all__ = [
    "ChannelScaler",
    "ChannelWhitening",
    "ContrastNormalization",
    "Downsample",
    "ReadImages",
    "ScatteringTransform",
    "ZCAWhitening",
]
