"""Likelihoods: labels to latent targets, latents to probabilities."""

from skconvgp._parts import Part
from skconvgp._protocols import (
    Calibration,
    ExpectedSites,
    Familiarity,
    Sites,
    Span,
    Targets,
)
from skconvgp.likelihoods._bernoulli import Bernoulli
from skconvgp.likelihoods._beta import Beta
from skconvgp.likelihoods._dirichlet import Dirichlet
from skconvgp.likelihoods._gaussian import Gaussian
from skconvgp.likelihoods._laplace import Laplace
from skconvgp.likelihoods._robustmax import RobustMax
from skconvgp.likelihoods._softmax import Softmax

__all__ = [
    "Bernoulli",
    "Beta",
    "Calibration",
    "Dirichlet",
    "ExpectedSites",
    "Familiarity",
    "Gaussian",
    "Laplace",
    "Part",
    "RobustMax",
    "Sites",
    "Softmax",
    "Span",
    "Targets",
]
