"""From some entries of a Gram matrix to all of it, pluggable as `completion=`."""

from skconvgp._parts import Part
from skconvgp._protocols import CompletedGram
from skconvgp.completion._baselines import CoarseKernel, SubsetOfData
from skconvgp.completion._nystrom import EnsembleNystrom, Nystrom

__all__ = [
    "CoarseKernel",
    "CompletedGram",
    "EnsembleNystrom",
    "Nystrom",
    "Part",
    "SubsetOfData",
]
