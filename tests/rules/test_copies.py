"""A weight of 2 is two equal samples, for every estimator and choice of landmarks."""

import inspect

import numpy as np
import pytest

from skconvgp import (
    ConvNetGPClassifier,
    ImageClassifier,
    KernelFeatures,
    NystromCompletedGP,
    NystromCompletedGPRegressor,
    PatchGPClassifier,
    PatchGPRegressor,
)
from skconvgp.completion import CoarseKernel, EnsembleNystrom, Nystrom, SubsetOfData
from skconvgp.completion._landmarks import LANDMARKS, WITHOUT_COLUMNS
from skconvgp.kernels import rbf
from skconvgp.transforms import ChannelWhitening, ZCAWhitening
from tests.helpers.public import CASES, CONV, PATCHES, Case, N, offers

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:.* explains .*:UserWarning",
    "ignore:Features of the completion exceed:UserWarning",
)
KERNEL = rbf(3.0)
WEIGHTS = np.tile([2, 1, 1, 0, 3, 1], N // 6)
# Weights of the parts of images.
EACH_PART = list(range(1, 9))
N_INPUTS = int(np.count_nonzero(WEIGHTS))
# Where copies count otherwise: docs/user_guide/noise.rst, "Sample weights"
OTHERWISE = ("NearestNeighbors", "BayesianNetwork", "Lsqr")
REFUSED = ("likelihood=Laplace", "optimizer=")  # with weights other than 0 and 1


def landmarks(word, m, cls=NystromCompletedGP, **settings):
    return cls(KERNEL, n_landmarks=m, landmarks=word, random_state=0, **settings)


def completed(part, **settings):
    return ConvNetGPClassifier(
        KERNEL, completion=part, observed_fraction=0.4, random_state=0, **settings
    )


def _takes_weights(case):
    takes = "sample_weight" in inspect.signature(case.estimator.fit).parameters
    return takes and not any(name in case.name for name in OTHERWISE + REFUSED)


ALL = [
    *(
        landmarks(word, m)
        for word in LANDMARKS
        for m in (N_INPUTS // 2, N_INPUTS, N_INPUTS + 4)
    ),
    *(completed(Nystrom(landmarks=word)) for word in LANDMARKS),
    *(completed(SubsetOfData(selection=word)) for word in WITHOUT_COLUMNS),
    completed(SubsetOfData(n_samples=6)),
    completed(EnsembleNystrom(n_members=2, landmarks="kmeans")),
    completed(Nystrom(n_landmarks=8), likelihood="dirichlet"),
    ConvNetGPClassifier(
        CONV, completion=CoarseKernel(exact=Nystrom(n_landmarks=8)), random_state=0
    ),
    landmarks("kmeans", 8, NystromCompletedGPRegressor, variance="fitc"),
    landmarks("uniform", 8, likelihood="dirichlet"),
    PatchGPClassifier(PATCHES, likelihood="dirichlet", n_inducing=8, random_state=0),
    PatchGPRegressor(PATCHES, inducing="uniform", n_inducing=9, random_state=0),
    ImageClassifier([(ChannelWhitening(), KERNEL)], noise_variance=0.1),
    ImageClassifier([(ZCAWhitening(), KERNEL)], noise_variance=0.1),
    ImageClassifier(part_weights=EACH_PART, flips=True, random_state=0),
]


@pytest.mark.parametrize(
    "case",
    [*map(Case, ALL), *filter(_takes_weights, CASES)],
    ids=lambda case: case.name,
)
def test_a_weight_of_two_is_two_equal_samples(case):
    X, y, new = case.data()
    weighted, repeated = case.new().fit(X, y, sample_weight=WEIGHTS), case.new()
    repeated.fit(np.repeat(X, WEIGHTS, 0), np.repeat(y, WEIGHTS, 0))
    # Views of scattering are learned from sums in another order, in single precision.
    unit = 100.0 if getattr(weighted, "parts", None) == "auto" else 1.0
    for name in ("predict_proba", "predict", "decision_function"):
        if not offers(weighted, name):
            continue
        found, expected = (getattr(gp, name)(new) for gp in (weighted, repeated))
        allowed = 1e-7 * unit * np.abs(expected).max()
        np.testing.assert_allclose(found, expected, atol=allowed, err_msg=name)
        break
    _, spread = weighted.predict_latent(new, return_std=True)
    _, expected = repeated.predict_latent(new, return_std=True)
    np.testing.assert_allclose(spread, expected, rtol=1e-6 * unit)


@pytest.mark.parametrize("word", LANDMARKS)
def test_copies_take_no_landmarks_away(word):
    """With as many landmarks as different inputs the process is exact."""
    X, y, new = Case(ConvNetGPClassifier()).data()
    X, y = X[np.arange(N) % 15], y[np.arange(N) % 15]
    gp = landmarks(word, 15, noise_variance=0.1).fit(X, y)
    assert sorted(gp.landmark_indices_) == list(range(15))
    exact = ConvNetGPClassifier(KERNEL, noise_variance=0.1).fit(X, y)
    np.testing.assert_allclose(
        gp.decision_function(new), exact.decision_function(new), atol=1e-7
    )


def test_features_of_landmarks_are_those_of_different_inputs():
    X, _, new = Case(ConvNetGPClassifier()).data()
    part = Nystrom(n_landmarks=12, landmarks="kmeans")
    once, often = (
        KernelFeatures(KERNEL, part, random_state=0).fit(given)
        for given in (X, np.repeat(X, 3, 0))
    )
    np.testing.assert_array_equal(often.landmark_indices_, 3 * once.landmark_indices_)
    np.testing.assert_allclose(once.transform(new), often.transform(new), rtol=1e-9)


def test_a_given_matrix_has_landmarks_among_different_rows():
    X, y, new = Case(ConvNetGPClassifier()).data()
    flat = np.repeat(X.reshape(N, -1), 2, 0)
    gram = flat @ flat.T
    gp = NystromCompletedGP("precomputed", n_landmarks=10, random_state=0)
    gp.fit(gram, np.repeat(y, 2))
    assert len(set(gp.landmark_indices_ // 2)) == 10
    assert gp.predict(new.reshape(len(new), -1) @ flat.T).shape == (len(new),)


def test_the_report_counts_entries_of_different_inputs():
    X, y, _ = Case(ConvNetGPClassifier()).data()
    reports = [
        completed(Nystrom()).fit(np.repeat(X, k, 0), np.repeat(y, k)).fit_report_
        for k in (1, 4)
    ]
    assert reports[0].observed_fraction == reports[1].observed_fraction
    assert reports[0].n_pairs == reports[1].n_pairs


def test_a_subset_uses_all_copies_of_its_inputs():
    X, y, _ = Case(ConvNetGPClassifier()).data()
    gp = completed(SubsetOfData(n_samples=5)).fit(np.repeat(X, 3, 0), np.repeat(y, 3))
    assert gp.X_train_.shape[0] == 15
    assert len(np.unique(gp.X_train_.reshape(15, -1), axis=0)) == 5
