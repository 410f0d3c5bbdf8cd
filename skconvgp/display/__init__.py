"""Pictures; matplotlib is imported only when one is drawn."""

from skconvgp.display._digits import UncertainDigitsDisplay

__all__ = ["UncertainDigitsDisplay"]
