"""Questions of each public class: an answer, or a refusal with the remedy."""

from functools import partial

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.linear_model import LogisticRegression

from skconvgp import (
    ConvNetGPRegressor,
    ImageClassifier,
    NystromCompletedGP,
    NystromCompletedGPRegressor,
)
from skconvgp.completion import RandomFeatures
from skconvgp.kernels import rbf
from skconvgp.questions import (
    attribution,
    audit,
    novelty,
    prediction_interval,
    prediction_set,
    query,
    representer_points,
)
from tests.helpers.public import CASES, PATCHES, fitted_and_results

# Those with a factor, unless their settings are among the others.
ANSWERING = ("ConvNetGP", "Image", "KernelFlows", "NystromCompletedGP", "PatchGP")
REFUSING = (
    "completion=",
    "solver=ConjugateGradient",
    "solver=Lsqr",
    "likelihood=Dirichlet",
    "likelihood=Laplace",
    "likelihood=Beta",
    "likelihood=Softmax",
    "likelihood=RobustMax",
    "likelihood=Bernoulli",
)
# Labels whose targets have a noise each.
CODED = ("likelihood=Dirichlet", "likelihood=Beta")
# One kernel for all pairs, and features that have nothing to do with samples.
WHOLE = (
    "completion=CoarseKernel()",
    "completion=RandomFeatures",
    "completion=SubsetOfData",
)
# And features of a completed matrix, of which only left-out samples are not kept.
FACTORED = (
    *WHOLE,
    "completion=Nystrom",
    "completion=EnsembleNystrom",
    "completion=IterativeSVD",
    "completion=SoftImpute",
    "completion=MatrixFactorization",
)
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
    refusing = set(REFUSING) - set(CODED if question is query else ())
    is_refused = any(setting in case.name for setting in refusing)
    whole = FACTORED if question is query else WHOLE
    is_refused &= not any(setting in case.name for setting in whole)
    return case.name.startswith(ANSWERING) and not is_refused


@ignored
@pytest.mark.parametrize("case", FITTED, ids=lambda case: case.name)
def test_each_class_answers_or_refuses(case):
    fitted, _ = fitted_and_results(case)
    new, asked = case.data()[2], [novelty, query]
    asked += [prediction_set] if is_classifier(fitted) else []
    asked += [prediction_interval] if is_regressor(fitted) else []
    for question in asked:
        settings = {"n": len(new)} if question is query else {}
        if answers(case, question):
            found = question(fitted, new, **settings)
            assert len(found) == len(new)
            assert not np.isnan(found).any()
            continue
        owner, name = type(case.estimator).__name__, question.__name__
        with pytest.raises(
            ValueError, match=f"{owner} cannot answer `{name}`: "
        ) as told:
            question(fitted, new, **settings)
        assert ": use " in str(told.value) or ": fit with " in str(told.value)


@ignored
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
    for text in found.unanswered.values():
        assert any(word in text for word in (": use ", ": fit with ", ": ask "))
    is_unknown = any(setting in case.name for setting in NOT_COMPARED)
    assert (found.near_copies is None) == is_unknown


# Without derivatives of one sum for all samples.
NO_SLOPES = ("BayesianNetwork", "KernelEnsemble")
# Without coefficients of samples, and without features of them.
NO_POINTS = (
    *NO_SLOPES,
    "completion=EnsembleNystrom",
    "completion=IterativeSVD",
    "completion=MatrixFactorization",
    "completion=Nystrom",
    "completion=SoftImpute",
    "likelihood=Softmax",
    "likelihood=RobustMax",
    "likelihood=Bernoulli",
)


@ignored
@pytest.mark.parametrize("case", FITTED, ids=lambda case: case.name)
def test_each_class_has_maps_or_says_how(case):
    fitted, _ = fitted_and_results(case)
    new, owner = case.data()[2], type(case.estimator).__name__
    if any(one in case.name for one in (*NO_SLOPES, "NearestNeighbors")):
        told = f"{owner} cannot answer `attribution`: .*: use method='occlusion'"
        with pytest.raises(ValueError, match=told):
            attribution(fitted, new)
        maps = attribution(fitted, new, method="occlusion", window=4)
    else:
        maps = attribution(fitted, new)
    assert maps.shape == (len(new), 8, 8)
    assert np.isfinite(maps).all()
    assert maps.any()
    if case.name.startswith("PatchGP"):
        latent, outputs = fitted.predict_latent(new), np.zeros(len(new), dtype=int)
        offset = getattr(fitted, "latent_offset_", getattr(fitted, "y_mean_", None))
        if is_classifier(fitted):
            outputs = np.searchsorted(fitted.classes_, fitted.predict(new))
        latent = latent.reshape(len(new), -1)[np.arange(len(new)), outputs]
        np.testing.assert_allclose(
            maps.sum((1, 2)), latent - offset[outputs], rtol=0, atol=1e-5
        )


@ignored
@pytest.mark.parametrize("case", FITTED, ids=lambda case: case.name)
def test_each_class_has_representer_points_or_says_who_has(case):
    fitted, _ = fitted_and_results(case)
    new, owner = case.data()[2], type(case.estimator).__name__
    if any(one in case.name for one in (*NO_POINTS, "NearestNeighbors")):
        told = f"{owner} cannot answer `representer_points`: .*: (use|fit with) "
        with pytest.raises(ValueError, match=told):
            representer_points(fitted, new)
        return
    indices, values = representer_points(fitted, new)
    assert indices.shape == values.shape == (len(new), 2, 5)
    assert values.any()
    everything = representer_points(fitted, new, 0, n_points=24)[1].sum((1, 2))
    offset = fitted.latent_offset_[0] if is_classifier(fitted) else fitted.y_mean_[0]
    latent = fitted.predict_latent(new).reshape(len(new), -1)[:, 0] - offset
    np.testing.assert_allclose(everything, latent, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "gp",
    [
        NystromCompletedGPRegressor(rbf(1.0), n_landmarks=8),
        ConvNetGPRegressor(rbf(1.0), completion=RandomFeatures(20)),
    ],
    ids=lambda gp: type(gp).__name__,
)
@pytest.mark.parametrize(
    "ask",
    [prediction_interval, novelty, representer_points],
    ids=lambda ask: ask.__name__,
)
def test_features_with_known_noise_name_a_remedy_that_helps(gp, ask):
    rng = np.random.default_rng(0)
    X, variances = rng.normal(size=(40, 2)), rng.uniform(0.1, 0.3, 40)
    y, new = X[:, 0], X[:3] + 0.1
    gp = clone(gp).set_params(noise_variance=variances, random_state=0).fit(X, y)
    remedy = r"`sample_weight`.*or use ConvNetGPRegressor with completion=None"
    with pytest.raises(ValueError, match=remedy):
        ask(gp, new)
    gp.set_params(noise_variance=0.2).fit(X, y, sample_weight=0.2 / variances)
    assert len(ask(gp, new)) in (2, 3)
    whole = ConvNetGPRegressor(rbf(1.0), noise_variance=variances).fit(X, y)
    assert len(ask(whole, new)) in (2, 3)


def test_labels_with_a_noise_each_name_a_remedy_that_helps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y, new = X[:, 0] > 0.0, X[:3] + 0.1
    gp = NystromCompletedGP(rbf(1.0), n_landmarks=8, likelihood="dirichlet")
    gp.set_params(random_state=0).fit(X, y)
    asked = prediction_set, novelty, representer_points
    for ask in asked:
        with pytest.raises(ValueError, match=r"fit with likelihood='gaussian'\.$"):
            ask(gp, new)
    gp.set_params(likelihood="gaussian").fit(X, y)
    assert all(len(ask(gp, new)) in (2, 3) for ask in asked)


def test_models_for_prediction_name_the_estimator_that_they_were_made_from():
    X, y, new = CASES[0].data()
    fitted = ImageClassifier([PATCHES], random_state=0).fit(X, y)
    asked = prediction_set, novelty, lambda gp, new: audit(gp), partial(query, n=1)
    for question in asked:
        with pytest.raises(ValueError, match="use the estimator that it was made from"):
            question(fitted.for_prediction(), new)


@pytest.mark.parametrize(
    "ask",
    [
        novelty,
        prediction_set,
        partial(query, n=1),
        attribution,
        representer_points,
    ],
    ids=["novelty", "prediction_set", "query", "attribution", "representer_points"],
)
def test_questions_need_samples(ask):
    X, y, _ = CASES[0].data()
    fitted = ImageClassifier([PATCHES], random_state=0).fit(X, y)
    for nothing in (None, 3.0):
        with pytest.raises(
            ValueError, match=r"`X(_pool)?` must hold images or vectors"
        ):
            ask(fitted, nothing)
    with pytest.raises(ValueError, match=r"`X(_pool)?` holds no samples"):
        ask(fitted, X[:0])


@pytest.mark.parametrize("question", [novelty, partial(query, n=1)])
def test_models_of_others_are_refused(question):
    X, y, _ = CASES[0].data()
    rows = X.reshape(len(X), -1)
    other = LogisticRegression().fit(rows, y)
    with pytest.raises(
        ValueError, match=r"no Gaussian process with a factor, .*: use "
    ):
        question(other, rows)
