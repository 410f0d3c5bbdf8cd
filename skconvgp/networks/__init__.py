"""Finite networks: many draws at once, their potentials, and their training."""

from skconvgp.networks._batched import (
    ACTIVATIONS,
    BatchedNetwork,
    LayeredNetwork,
    ModuleNetwork,
    Parameters,
)
from skconvgp.networks._matching import match_covariance
from skconvgp.networks._potentials import (
    CategoricalData,
    DataTerm,
    FunctionPrior,
    GaussianData,
    Potential,
    PriorTerm,
    WeightPrior,
    sample_functions,
)
from skconvgp.networks._sghmc import Sampling, sample_chains
from skconvgp.networks._training import (
    Epoch,
    Schedule,
    Trained,
    Validation,
    initial_parameters,
    train,
)

__all__ = [
    "ACTIVATIONS",
    "BatchedNetwork",
    "CategoricalData",
    "DataTerm",
    "Epoch",
    "FunctionPrior",
    "GaussianData",
    "LayeredNetwork",
    "ModuleNetwork",
    "Parameters",
    "Potential",
    "PriorTerm",
    "Sampling",
    "Schedule",
    "Trained",
    "Validation",
    "WeightPrior",
    "initial_parameters",
    "match_covariance",
    "sample_chains",
    "sample_functions",
    "train",
]
