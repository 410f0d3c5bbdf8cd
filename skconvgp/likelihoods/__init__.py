"""Likelihoods: labels to latent targets, latents to probabilities."""

from skconvgp.likelihoods._gaussian import Gaussian

__all__ = ["Gaussian"]
