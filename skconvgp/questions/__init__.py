"""Questions about your data that a fitted process answers without a refit."""

from skconvgp.questions._attribution import attribution
from skconvgp.questions._audit import Audit, audit
from skconvgp.questions._deciding import select_threshold
from skconvgp.questions._intervals import prediction_interval
from skconvgp.questions._novelty import novelty
from skconvgp.questions._query import query
from skconvgp.questions._representers import representer_points
from skconvgp.questions._sets import prediction_set

__all__ = [
    "Audit",
    "attribution",
    "audit",
    "novelty",
    "prediction_interval",
    "prediction_set",
    "query",
    "representer_points",
    "select_threshold",
]
