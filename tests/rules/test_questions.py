"""Questions of each public class: an answer, or a refusal with the remedy."""

import numpy as np
import pytest
from sklearn.base import is_classifier, is_regressor

from skconvgp import ImageClassifier
from skconvgp.questions import (
    audit,
    novelty,
    prediction_interval,
    prediction_set,
)
from tests.helpers.public import CASES, PATCHES, fitted_and_results

# Those with a factor, unless their settings are among the others.
ANSWERING = ("ConvNetGP", "Image", "KernelFlows", "NystromCompletedGP", "PatchGP")
REFUSING = (
    "completion=",
    "augment=",
    "solver=ConjugateGradient",
    "solver=Lsqr",
    "likelihood=Dirichlet",
    "likelihood=Laplace",
    "likelihood=Beta",
    "likelihood=Softmax",
    "likelihood=RobustMax",
    "likelihood=Bernoulli",
)
# One kernel for all pairs, and features that have nothing to do with samples.
WHOLE = ("completion=CoarseKernel()", "completion=RandomFeatures")
# Whose factor gives no other one, and whose noise is of several kinds.
NO_NOVELTY = ("solver=RefinedCholesky", "variance='fitc'")
# What keeps neither a factor, nor features, nor all samples.
NOT_COMPARED = (
    "completion=Nystrom",
    "completion=EnsembleNystrom",
    "completion=NearestNeighbors",
    "KernelEnsemble",
    "likelihood=Softmax",
    "likelihood=RobustMax",
    "likelihood=Bernoulli",
)
FITTED = [case for case in CASES if hasattr(case.estimator, "predict")]
ignored = pytest.mark.filterwarnings(
    "ignore:Every set", "ignore:Intervals are", "ignore::UserWarning"
)


def answers(case, question):
    """Return whether a case has an answer to a question."""
    if question is novelty and any(one in case.name for one in NO_NOVELTY):
        return False
    is_refused = any(setting in case.name for setting in REFUSING)
    is_refused &= not any(setting in case.name for setting in WHOLE)
    return case.name.startswith(ANSWERING) and not is_refused


@ignored
@pytest.mark.parametrize("case", FITTED, ids=lambda case: case.name)
def test_each_class_answers_or_refuses(case):
    fitted, _ = fitted_and_results(case)
    new, asked = case.data()[2], [novelty]
    asked += [prediction_set] if is_classifier(fitted) else []
    asked += [prediction_interval] if is_regressor(fitted) else []
    for question in asked:
        if answers(case, question):
            found = question(fitted, new)
            assert len(found) == len(new)
            assert not np.isnan(found).any()
            continue
        owner, name = type(case.estimator).__name__, question.__name__
        with pytest.raises(
            ValueError, match=f"{owner} cannot answer `{name}`: "
        ) as told:
            question(fitted, new)
        assert ": use " in str(told.value) or ": fit with " in str(told.value)


@pytest.mark.parametrize("case", FITTED, ids=lambda case: case.name)
def test_each_class_with_left_out_predictions_is_audited(case):
    fitted, _ = fitted_and_results(case)
    if not hasattr(fitted, "loo_predict"):
        owner = type(case.estimator).__name__
        with pytest.raises(ValueError, match=f"{owner} cannot answer `audit`: .*: use"):
            audit(fitted)
        return
    found = audit(fitted)
    assert 0 < found.n_samples <= len(case.data()[0])
    for name in ("near_copies", "outliers"):
        assert (getattr(found, name) is None) == (name in found.unanswered)
    is_unknown = any(setting in case.name for setting in NOT_COMPARED)
    assert (found.near_copies is None) == is_unknown


def test_models_for_prediction_name_the_estimator_that_they_were_made_from():
    X, y, new = CASES[0].data()
    fitted = ImageClassifier([PATCHES], random_state=0).fit(X, y)
    for question in (prediction_set, novelty, lambda gp, new: audit(gp)):
        with pytest.raises(ValueError, match="use the estimator that it was made from"):
            question(fitted.for_prediction(), new)
