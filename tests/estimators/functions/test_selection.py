"""Several processes on the same data, side by side."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsRegressor,
    NystromCompletedGP,
    gram_matrix,
    selection_report,
)
from skconvgp.completion import CoarseKernel, NearestNeighbors, Nystrom, SubsetOfData
from skconvgp.estimators import SelectionReport
from skconvgp.exceptions import JitterWarning
from skconvgp.flows import Adam
from skconvgp.kernels import convnet, matern, rbf
from skconvgp.metrics import expected_calibration_error
from tests.helpers.estimators import blobs, digits, tiny_network, wave

FEW = {"noise_variance": 0.1}


def held_out_share(kernel, X, y, noise):
    """Return how much one half does not predict of the other, over many halvings."""
    gram = gram_matrix(kernel, X, dtype="float64")
    gram /= np.diag(gram).mean()
    rng, n = np.random.default_rng(0), len(X)
    shares = []
    for _ in range(200):
        order = rng.permutation(n)
        one, other = order[: n // 2], order[n // 2 :]
        matrix = gram[np.ix_(one, one)] + noise * np.eye(len(one))
        error = y[other] - gram[np.ix_(other, one)] @ np.linalg.solve(matrix, y[one])
        shares.append(np.sum(error**2) / np.sum(y[other] ** 2))
    return np.mean(shares)


def test_scores_of_a_classifier_are_those_of_leaving_one_out():
    X, y = blobs(60)
    words = np.array(["no", "yes", "maybe"])[y]
    unfitted = {"RBF": ConvNetGPClassifier(rbf(1.0), **FEW)}
    report = selection_report(unfitted, X, words, n_batches=50)
    gp = ConvNetGPClassifier(rbf(1.0), **FEW).fit(X, words)
    y_prob = gp.loo_predict_proba()
    scores = {
        "evidence": gp.log_marginal_likelihood(),
        "accuracy": np.mean(gp.loo_predict() == words),
        "log_density": -log_loss(words, y_prob),
        "calibration_error": expected_calibration_error(words, y_prob),
    }
    found = report.to_dict()
    assert list(found) == ["rho", *scores]
    for score, expected in scores.items():
        assert found[score]["RBF"] == pytest.approx(expected, rel=1e-12)
    targets = np.where(y[:, None] == np.arange(3), 1.0, -0.5)
    expected = held_out_share(rbf(1.0), X, targets, 0.1)
    assert found["rho"]["RBF"] == pytest.approx(expected, rel=0.1)


def test_scores_of_a_regressor_are_those_of_leaving_one_out():
    X, y = wave(60)
    report = selection_report([ConvNetGPRegressor(rbf(1.0), **FEW)], X, y, n_batches=50)
    gp = ConvNetGPRegressor(rbf(1.0), **FEW).fit(X, y)
    mean, std = gp.loo_predict(return_std=True)
    covered = np.abs(y - mean) <= norm.ppf(0.975) * std
    scores = {
        "evidence": gp.log_marginal_likelihood(),
        "rmse": np.sqrt(np.mean((y - mean) ** 2)),
        "log_density": norm.logpdf(y, mean, std).mean(),
        "coverage": covered.mean(),
    }
    assert report.scores == ("rho", *scores)
    np.testing.assert_allclose(report.values[0, 1:], list(scores.values()), rtol=1e-12)
    centred = (y - y.mean())[:, None]
    expected = held_out_share(rbf(1.0), X, centred, 0.1)
    assert report.values[0, 0] == pytest.approx(expected, rel=0.1)


def test_fitted_estimators_are_taken_as_they_are():
    X, y = blobs(40)
    fitted = ConvNetGPClassifier(rbf(1.0), **FEW).fit(X, y)
    unfitted = ConvNetGPClassifier(rbf(2.0), **FEW)
    report = selection_report([fitted, unfitted], X, y)
    assert report.estimators[0] is fitted
    assert report.estimators[1] is not unfitted
    assert not hasattr(unfitted, "kernel_")
    again = selection_report(report.estimators, X, y)
    np.testing.assert_array_equal(again.values, report.values)


def test_kernels_stand_for_estimators_of_the_targets_kind():
    X, y = digits(40)
    labels = selection_report([rbf(2.0), tiny_network()], X, y)
    assert labels.names == ("rbf(lengthscale=2.0)", "convnet(depth=1, kernel_size=3)")
    kinds = [type(gp) for gp in labels.estimators]
    assert kinds == [ConvNetGPClassifier] * 2
    numbers = selection_report([rbf(1.0)], X, y + 0.5)
    assert type(numbers.estimators[0]) is ConvNetGPRegressor
    assert numbers.estimators[0].noise_variance == "evidence"


@pytest.mark.parametrize(
    "candidate",
    [
        ConvNetGPClassifier(rbf(1.0), completion=Nystrom(n_landmarks=20)),
        ConvNetGPClassifier(rbf(1.0), completion=NearestNeighbors(10)),
        ConvNetGPClassifier(rbf(1.0), completion=SubsetOfData(), observed_fraction=0.5),
        ConvNetGPClassifier(convnet(2, 3), completion=CoarseKernel(depth=1)),
        ConvNetGPClassifier(
            convnet(2, 3), completion=CoarseKernel(depth=1, exact=Nystrom(20))
        ),
        NystromCompletedGP(rbf(1.0), n_landmarks=20),
        make_pipeline(StandardScaler(), ConvNetGPClassifier(rbf(5.0))),
    ],
    ids=repr,
)
def test_every_process_has_all_scores_fitted_or_not(candidate):
    X, y = digits(60)
    X = X.reshape(60, -1)
    last = {"image_shape": (8, 8)}
    if hasattr(candidate, "completion") or hasattr(candidate, "n_landmarks"):
        candidate.set_params(**last)
    report = selection_report({"it": candidate}, X, y)
    assert np.isfinite(report.values).all()
    again = selection_report({"it": report.estimators[0]}, X, y)
    np.testing.assert_array_equal(again.values, report.values)


def test_a_precomputed_matrix_has_the_scores_of_its_kernel():
    X, y = wave(40)
    gram = gram_matrix(rbf(1.0), X, dtype="float64")
    by_kernel = selection_report([ConvNetGPRegressor(rbf(1.0))], X, y)
    by_matrix = selection_report([ConvNetGPRegressor("precomputed")], gram, y)
    np.testing.assert_allclose(by_matrix.values, by_kernel.values, rtol=1e-6)


def test_several_outputs():
    X, y = wave(40)
    both = np.column_stack([y, 100.0 * y])
    report = selection_report([KernelFlowsRegressor(optimizer=Adam(3))], X, both)
    assert np.isfinite(report.values).all()


def test_batches_are_the_same_for_all_and_follow_the_seed():
    X, y = wave(40)
    pair = {"one": rbf(1.0), "same": rbf(1.0)}
    report = selection_report(pair, X, y, batch_size=20)
    assert report.values[0, 0] == report.values[1, 0]
    other = selection_report(pair, X, y, batch_size=20, random_state=1)
    assert other.values[0, 0] != report.values[0, 0]


def test_an_undefined_rho_is_nan_and_never_the_best():
    X, y = wave(40)
    singular = np.vstack([X, X])
    targets = np.concatenate([y, y + 0.1])
    exact = ConvNetGPRegressor(rbf(1.0), noise_variance=0.0)
    candidates = {"exact": exact, "noisy": rbf(1.0)}
    with pytest.warns(JitterWarning):
        report = selection_report(candidates, singular, targets)
    assert np.isnan(report.values[0, 0])
    assert report.best("rho") == "noisy"


def test_evidences_of_other_targets_are_not_compared():
    X, y = blobs(40)
    words = ("gaussian", "dirichlet")
    candidates = {
        word: ConvNetGPClassifier(rbf(1.0), likelihood=word, **FEW) for word in words
    }
    report = selection_report(candidates, X, y)
    evidence = report.values[:, report.scores.index("evidence")]
    assert np.isnan(evidence).all()
    assert not report.is_best("evidence").any()
    same = {name: clone(gp) for name, gp in candidates.items()}
    same["gaussian"].set_params(likelihood="dirichlet", kernel=rbf(2.0))
    assert np.isfinite(selection_report(same, X, y).values[:, 1]).all()
    some = {
        "all": rbf(1.0),
        "some": ConvNetGPClassifier(rbf(1.0), completion=SubsetOfData()),
    }
    assert np.isnan(selection_report(some, X, y).values[:, 1]).all()


def made(values, scores=("rho", "evidence", "coverage")):
    names = tuple("abc"[: len(values)])
    return SelectionReport(names, scores, np.array(values), (None,) * len(values))


def test_best_is_in_the_direction_of_the_score():
    report = made([[0.3, 10.0, 0.90], [0.1, -5.0, 0.99], [0.2, 12.0, 0.94]])
    assert [report.best(score) for score in report.scores] == ["b", "c", "c"]
    ties = made([[0.1, 1.0, 0.9], [0.1, 0.0, 0.9]])
    assert ties.is_best("rho").tolist() == [True, True]
    assert ties.best("rho") == "a"
    with pytest.raises(ValueError, match=r"'rho', 'evidence', 'coverage'.*'rmse'"):
        report.best("rmse")
    with pytest.raises(ValueError, match="undefined for every candidate"):
        made([[np.nan, 1.0, 0.9]]).best("rho")


def test_the_table_shows_names_scores_and_the_best():
    text = str(made([[0.3, 10.0, 0.9], [np.nan, 1234.56, 0.5]]))
    rows = [line.split() for line in text.splitlines()]
    assert rows[0] == ["candidate", "rho", "evidence", "coverage"]
    assert rows[1] == ["a", "0.3000*", "10.0", "0.9000*"]
    assert rows[2] == ["b", "nan", "1234.6*", "0.5000"]
    assert len({len(line) for line in text.splitlines()}) <= 2


def test_the_report_is_read_only_and_a_frame_takes_it():
    X, y = wave(20)
    report = selection_report({"a": rbf(1.0), "b": matern(1.0)}, X, y)
    with pytest.raises(ValueError, match="read-only"):
        report.values[0, 0] = 1.0
    with pytest.raises(AttributeError):
        report.names = ()
    frame = pd.DataFrame(report.to_dict())
    assert list(frame.columns) == list(report.scores)
    assert list(frame.index) == ["a", "b"]
    np.testing.assert_array_equal(frame.to_numpy(), report.values)


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([], "one candidate or more"),
        ([rbf(2.0), rbf(2.0)], r"names that differ.*rbf\(lengthscale=2.0\)"),
        ([("a", rbf(1.0)), ("a", matern(1.0))], r"names that differ.*'a'"),
        ([SVC()], r"processes of skconvgp.*SVC"),
        ([make_pipeline(StandardScaler(), SVC())], "processes of skconvgp"),
        ([ConvNetGPClassifier], "processes of skconvgp"),
        (
            [ConvNetGPClassifier(rbf(1.0)), ConvNetGPRegressor(rbf(1.0))],
            "all classifiers",
        ),
    ],
)
def test_bad_candidates_are_told(candidates, message):
    X, y = blobs(30)
    with pytest.raises(ValueError, match=message):
        selection_report(candidates, X, y)


@pytest.mark.parametrize("setting", [{"n_batches": 0}, {"batch_size": 31}])
def test_bad_settings_name_the_parameter(setting):
    X, y = blobs(30)
    (name,) = setting
    with pytest.raises(ValueError, match=f"{name!r} parameter of selection_report"):
        selection_report([rbf(1.0)], X, y, **setting)


def test_a_process_fitted_with_weights_is_refused():
    X, y = blobs(30)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y, 1.0 + np.arange(30) % 2)
    with pytest.raises(ValueError, match="'gp' was fitted with sample weights"):
        selection_report({"gp": gp}, X, y)


def test_a_process_fitted_to_other_data_is_refused():
    X, y = blobs(30)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y)
    for inputs, labels in ((2.0 * X, y), (X, y[::-1]), (X[:20], y[:20])):
        with pytest.raises(ValueError, match="'gp' was fitted to other data"):
            selection_report({"gp": gp}, inputs, labels)
    first = ConvNetGPClassifier(rbf(1.0)).fit(X[:20], y[:20])
    with pytest.raises(ValueError, match="'first' was fitted to other data"):
        selection_report({"first": first}, X, y)
    regressor = ConvNetGPRegressor(rbf(1.0)).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="'gp' was fitted to other data"):
        selection_report({"gp": regressor}, X, X[:, 1])


@pytest.mark.parametrize("candidate", [rbf(1.0), ConvNetGPClassifier(rbf(1.0))])
def test_a_single_candidate_needs_no_list(candidate):
    X, labels = blobs(30)
    report = selection_report(candidate, X, labels)
    assert len(report.estimators) == 1
    np.testing.assert_array_equal(
        report.values, selection_report([candidate], X, labels).values
    )
