"""Pictures; matplotlib is imported only when one is drawn."""

from skconvgp.display._digits import UncertainDigitsDisplay
from skconvgp.display._reliability import ReliabilityDisplay
from skconvgp.display._rho import RhoTraceDisplay

__all__ = ["ReliabilityDisplay", "RhoTraceDisplay", "UncertainDigitsDisplay"]
