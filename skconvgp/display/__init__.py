"""Displays of processes and scores; matplotlib is imported only when one is drawn."""

from skconvgp.display._attribution import AttributionDisplay
from skconvgp.display._audit import AuditDisplay
from skconvgp.display._completion import CompletionErrorDisplay
from skconvgp.display._digits import UncertainDigitsDisplay
from skconvgp.display._novelty import NoveltyDisplay
from skconvgp.display._patches import PatchesDisplay
from skconvgp.display._query_curves import QueryCurvesDisplay
from skconvgp.display._reliability import ReliabilityDisplay
from skconvgp.display._rho import RhoTraceDisplay
from skconvgp.display._selection import SelectionDisplay
from skconvgp.display._sets import PredictionSetDisplay
from skconvgp.display._spectrum import SpectrumDisplay

__all__ = [
    "AttributionDisplay",
    "AuditDisplay",
    "CompletionErrorDisplay",
    "NoveltyDisplay",
    "PatchesDisplay",
    "PredictionSetDisplay",
    "QueryCurvesDisplay",
    "ReliabilityDisplay",
    "RhoTraceDisplay",
    "SelectionDisplay",
    "SpectrumDisplay",
    "UncertainDigitsDisplay",
]
