"""Classes with one image, of which leave-one-out tells nothing (docs/adr/noise.md)."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

from skconvgp import (
    ConvNetGPClassifier,
    ImageClassifier,
    NystromCompletedGP,
    PatchGPClassifier,
)
from skconvgp.augmentation import Flip
from skconvgp.completion import CoarseKernel, Nystrom, SubsetOfData
from skconvgp.estimators.settings._gp import why_no_choice
from skconvgp.kernels import convnet, rbf
from skconvgp.processes import Problem
from tests.helpers.estimators import all_digits, digits, label_targets, tiny_network

ESTIMATORS = {
    "network": lambda: ConvNetGPClassifier(tiny_network()),
    "landmarks": lambda: NystromCompletedGP(tiny_network(), random_state=0),
    "image": lambda: ImageClassifier(random_state=0),
    "patch": lambda: PatchGPClassifier(random_state=0),
}


# The suite ignores this warning elsewhere.
told_as_error = pytest.mark.filterwarnings("error:None of the:UserWarning")


def with_four_of_a_class():
    """Return 150 digits of a usual class and 4 of a rare one, and their labels."""
    images, labels = all_digits()
    usual, rare = (np.flatnonzero(labels == digit) for digit in (3, 8))
    few = np.r_[usual[:150], rare[:4]]
    return images[few], np.where(labels[few] == 3, "usual", "rare")


def with_few(n_pairs, seed):
    """Return indices of ten digits and of second images of some, and of others."""
    labels = all_digits()[1]
    order = np.random.default_rng(seed).permutation(len(labels))
    of_each = [order[labels[order] == label] for label in range(10)]
    chosen = [of[0] for of in of_each] + [of[1] for of in of_each[:n_pairs]]
    return np.array(chosen), np.setdiff1d(order, chosen)[:150]


def problem_of(codes, rows=None, weights=None):
    codes = np.array(codes)
    rows = np.arange(len(codes))[:, None] * 1.0 if rows is None else np.array(rows)
    weights = np.ones(len(codes)) if weights is None else np.array(weights)
    return Problem(rows, label_targets(codes), weights, np.ones(2), codes)


@pytest.mark.parametrize("n_pairs", [0, 1, 3])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_new_images_of_rare_classes_are_recognised(name, n_pairs):
    images, labels = all_digits()
    chosen, new = with_few(n_pairs, seed=0)
    gp = ESTIMATORS[name]().fit(images[chosen], labels[chosen])
    assert gp.noise_variance_ == 1e-4
    probabilities = gp.predict_proba(images[new])
    assert (probabilities.argmax(1) == labels[new]).mean() > 0.55
    assert log_loss(labels[new], probabilities) < 0.7 * np.log(10)
    said = f"only {2 * n_pairs} of {10 + n_pairs} different inputs"
    assert said in gp.fit_report_.noise_reason
    assert said in str(gp.fit_report_)
    if name == "image":
        weights = np.array(gp.fit_report_.part_weights)  # those without a choice
        np.testing.assert_allclose(np.sort(weights), np.array([1] * 5 + [4] * 3) / 17)
        assert not gp.fit_report_.is_mirrored


def test_a_weight_of_two_is_two_images_of_a_rare_class():
    images, labels = all_digits()
    chosen, new = with_few(1, 0)
    weighted = ConvNetGPClassifier(tiny_network())
    weighted.fit(images[chosen], labels[chosen], np.full(len(chosen), 2.0))
    twice = np.concatenate([chosen, chosen])
    repeated = ConvNetGPClassifier(tiny_network()).fit(images[twice], labels[twice])
    assert weighted.noise_variance_ == repeated.noise_variance_ == 1e-4
    np.testing.assert_allclose(
        weighted.predict_proba(images[new]), repeated.predict_proba(images[new])
    )


@pytest.mark.parametrize("n_pairs", [1, 7])
def test_probabilities_do_not_read_classes_that_are_left_out_whole(n_pairs):
    images, labels = all_digits()
    chosen, _ = with_few(n_pairs, 0)
    gp = ConvNetGPClassifier(tiny_network(), noise_variance=0.1)
    gp.fit(images[chosen], labels[chosen])
    _, mean, var = gp._left_out()
    judged = np.arange(len(chosen))
    if n_pairs == 1:  # most labels: ten images of eleven
        judged = np.array([0, 10])
    best = gp.likelihood_.calibrate(
        torch.as_tensor(mean[judged]),
        torch.as_tensor(var[judged]),
        torch.as_tensor(labels[chosen[judged]]),
        torch.ones(len(judged), dtype=torch.float64),
    )
    assert gp.calibration_ == best


@pytest.mark.parametrize(
    ("codes", "n_judged"),
    [
        (list(range(12)), 0),
        ([0, 0, *range(1, 10)], 2),
        ([0] * 5 + [1] * 5 + list(range(2, 12)), 10),
        ([0] * 5 + [1] * 5 + list(range(2, 13)), 10),
        ([0, 1] * 6, 12),
    ],
)
def test_a_choice_needs_ten_inputs_with_another_of_their_class(codes, n_judged):
    problem = problem_of(codes)
    assert problem.n_judged == n_judged
    is_enough = n_judged >= 10 and 2 * n_judged >= len(codes)
    assert bool(why_no_choice(problem)) is not is_enough


def test_copies_are_no_other_image():
    codes = [*range(12), *range(12)]
    rows = np.repeat([np.arange(12.0)], 2, axis=0).reshape(-1, 1)
    assert problem_of(codes, rows).n_judged == 0
    assert problem_of(range(12), weights=np.full(12, 2.0)).n_judged == 0
    # An input with two labels leaves the other inputs of its class.
    codes[12] = 5
    assert problem_of(codes, rows).n_judged == 2  # those of 0 and of 5
    # Of fewer inputs single observations are left out, and copies stay.
    assert problem_of([0, 1, 2, 2], weights=[2.0, 1.0, 1.0, 1.0]).n_judged == 3


def test_versions_of_an_image_are_no_other_image():
    images, labels = digits(100)
    first = np.array([np.flatnonzero(labels == label)[0] for label in range(10)])
    gp = ConvNetGPClassifier(convnet(1, 3), augment=Flip())
    gp.fit(images[first], labels[first])
    assert gp.noise_variance_ == 1e-4


def test_numbers_need_no_other_of_their_kind():
    X = np.arange(12.0)[:, None]
    problem = Problem(X, X - X.mean(), np.ones(12), np.ones(1))
    assert problem.n_judged == 12
    assert why_no_choice(problem) == ""
    assert "all targets" in why_no_choice(
        Problem(X, np.zeros((12, 1)), np.ones(12), np.ones(1))
    )


def test_a_noise_that_is_asked_for_is_chosen_and_the_report_is_silent():
    images, labels = digits(12)
    gp = ConvNetGPClassifier(rbf(), noise_variance="loo").fit(images, labels)
    assert gp.fit_report_.noise_reason == ""


@pytest.mark.parametrize("is_completion", [False, True])
@told_as_error
def test_a_class_without_a_landmark_is_told(is_completion):
    X, y = with_four_of_a_class()

    def gp(**settings):
        if is_completion:
            part = Nystrom(n_landmarks=8, **settings)
            return ConvNetGPClassifier(rbf(2.0), completion=part, random_state=0)
        return NystromCompletedGP(rbf(2.0), n_landmarks=8, random_state=0, **settings)

    told = r"None of the 8 landmarks is of the classes \['rare'\].*='stratified'"
    with pytest.warns(UserWarning, match=told):
        gp().fit(X, y)
    stratified = gp(landmarks="stratified").fit(X, y)  # no warning
    assert set(y[stratified.landmark_indices_]) == {"usual", "rare"}


@told_as_error
def test_a_class_that_a_subset_leaves_out_is_told():
    X, y = with_four_of_a_class()
    told = r"None of the 9 samples of the subset .*\['rare'\].*selection='stratified'"
    for selection in ("uniform", "stratified"):
        part = SubsetOfData(9, selection)
        gp = ConvNetGPClassifier(rbf(2.0), completion=part, random_state=0)
        is_told = selection == "uniform"
        with pytest.warns(UserWarning, match=told) if is_told else nullcontext():
            gp.fit(X, y)


def test_many_classes_without_landmarks_are_counted():
    X, _ = digits(60)
    gp = NystromCompletedGP(rbf(2.0), n_landmarks=10, random_state=0)
    with pytest.warns(UserWarning, match=r"classes \[.*\] and 11 more, and new"):
        gp.fit(X, np.arange(60) % 30)


@told_as_error
def test_a_sum_with_a_kernel_of_all_pairs_knows_all_classes():
    X, y = with_four_of_a_class()
    part = CoarseKernel(depth=1, exact=Nystrom(n_landmarks=8))
    gp = ConvNetGPClassifier(tiny_network(), completion=part, random_state=0)
    gp.fit(X[100:], y[100:])  # no warning


@told_as_error
def test_a_class_that_comes_after_the_landmarks_is_told():
    X, y = with_four_of_a_class()
    X, y = X[100:], np.r_[np.full(25, "usual"), np.full(25, "other"), y[150:]]
    gp = NystromCompletedGP(rbf(2.0), n_landmarks=20, random_state=0)
    gp.partial_fit(X[:50], y[:50], classes=["other", "rare", "usual"])
    told = r"None of the 20 landmarks .*\['rare'\].*: begin with a batch"
    with pytest.warns(UserWarning, match=told):
        gp.partial_fit(X[50:], y[50:])
    gp.partial_fit(X[50:] + 0.1, y[50:])  # told once
