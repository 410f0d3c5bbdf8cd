"""Maps of images to images, fitted to training images or not."""

from skconvgp.image_maps._blocks import ImageBlocks
from skconvgp.image_maps._channels import (
    ChannelComponents,
    ChannelScaling,
    ChannelZCA,
)
from skconvgp.image_maps._pixels import PixelMap
from skconvgp.image_maps._scattered import ScatteredFit, ScatteredView, Scatterer
from skconvgp.image_maps._scattering import Scattering
from skconvgp.image_maps._upright import Upright
from skconvgp.image_maps._whole import Contrast, PixelZCA, Pooling

__all__ = [
    "ChannelComponents",
    "ChannelScaling",
    "ChannelZCA",
    "Contrast",
    "ImageBlocks",
    "PixelMap",
    "PixelZCA",
    "Pooling",
    "ScatteredFit",
    "ScatteredView",
    "Scatterer",
    "Scattering",
    "Upright",
]
