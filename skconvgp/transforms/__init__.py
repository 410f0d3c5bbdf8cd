"""Transformers of images: images in, images out."""

from skconvgp.transforms._channels import ChannelScaler, ChannelWhitening
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
    "ScatteringTransform",
    "ZCAWhitening",
]
