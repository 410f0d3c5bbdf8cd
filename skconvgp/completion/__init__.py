"""Completions of a Gram matrix from a part of its entries, for `completion=`."""

from skconvgp._parts import Part
from skconvgp._protocols import CompletedGram
from skconvgp.completion._baselines import CoarseKernel, SubsetOfData
from skconvgp.completion._factorization import MatrixFactorization
from skconvgp.completion._iterative_svd import IterativeSVD
from skconvgp.completion._neighbors import NearestNeighbors
from skconvgp.completion._nystrom import EnsembleNystrom, Nystrom
from skconvgp.completion._random_features import RandomFeatures
from skconvgp.completion._soft_impute import SoftImpute

__all__ = [
    "CoarseKernel",
    "CompletedGram",
    "EnsembleNystrom",
    "IterativeSVD",
    "MatrixFactorization",
    "NearestNeighbors",
    "Nystrom",
    "Part",
    "RandomFeatures",
    "SoftImpute",
    "SubsetOfData",
]
