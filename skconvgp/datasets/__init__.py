"""Small data sets for examples, tests and benchmarks, and pictures of the user."""

from skconvgp.datasets._folder import load_image_folder
from skconvgp.datasets._generated import (
    make_doppler,
    make_rectangles,
    make_swissroll_cheesecake,
    make_three_bumps,
)
from skconvgp.datasets._images import fetch_cifar10, fetch_mnist, load_digits_images
from skconvgp.datasets._uci import load_uci

__all__ = [
    "fetch_cifar10",
    "fetch_mnist",
    "load_digits_images",
    "load_image_folder",
    "load_uci",
    "make_doppler",
    "make_rectangles",
    "make_swissroll_cheesecake",
    "make_three_bumps",
]
