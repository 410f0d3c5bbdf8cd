"""Pictures; matplotlib is imported only when one is drawn."""

from skconvgp.display._digits import UncertainDigitsDisplay
from skconvgp.display._reliability import ReliabilityDisplay
from skconvgp.display._rho import RhoTraceDisplay
from skconvgp.display._selection import SelectionDisplay

__all__ = [
    "ReliabilityDisplay",
    "RhoTraceDisplay",
    "SelectionDisplay",
    "UncertainDigitsDisplay",
]
