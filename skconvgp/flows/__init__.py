"""Objectives and optimisers that learn a kernel: `objective=` and `optimizer=`."""

from skconvgp._parts import Part
from skconvgp._protocols import OptimizerResult, Score, Step
from skconvgp.flows._bayesian import BayesianOptimization
from skconvgp.flows._descent import Adam, GradientDescent
from skconvgp.flows._history import FlowResult
from skconvgp.flows._lbfgs import LBFGS
from skconvgp.flows._objectives import Rho, rho_path
from skconvgp.flows._variational_bound import VariationalBound

__all__ = [
    "LBFGS",
    "Adam",
    "BayesianOptimization",
    "FlowResult",
    "GradientDescent",
    "OptimizerResult",
    "Part",
    "Rho",
    "Score",
    "Step",
    "VariationalBound",
    "rho_path",
]
