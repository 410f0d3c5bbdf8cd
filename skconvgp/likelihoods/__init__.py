"""Likelihoods: labels to latent targets, latents to probabilities."""

from skconvgp._parts import Part
from skconvgp._protocols import Targets
from skconvgp.likelihoods._gaussian import Gaussian

__all__ = ["Gaussian", "Part", "Targets"]
