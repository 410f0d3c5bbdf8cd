"""Likelihoods: labels to latent targets, latents to probabilities."""

from skconvgp._parts import Part
from skconvgp._protocols import Calibration, Sites, Targets
from skconvgp.likelihoods._beta import Beta
from skconvgp.likelihoods._dirichlet import Dirichlet
from skconvgp.likelihoods._gaussian import Gaussian
from skconvgp.likelihoods._laplace import Laplace

__all__ = [
    "Beta",
    "Calibration",
    "Dirichlet",
    "Gaussian",
    "Laplace",
    "Part",
    "Sites",
    "Targets",
]
