"""What every completion does, and a third-party one to prove the seam."""

import copy
import functools
import math
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone

from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor, completion, gram_matrix
from skconvgp._protocols import CompletedGram, Completion
from skconvgp.exceptions import CompletionError
from skconvgp.kernels import rbf
from tests.helpers.deviations import plain
from tests.helpers.estimators import DensePosterior
from tests.helpers.oracles import PlainOracle, low_rank, seeded, smooth
from tests.helpers.tolerances import assert_close


class FirstColumns:
    """Third-party completion: the first columns by Cholesky, no base class."""

    def complete(self, oracle, observed_fraction, generator):
        m = self._count(oracle.n_samples, observed_fraction)
        first = torch.arange(m)
        columns = oracle.block(None, first)
        jitter = 1e-9 * columns[0, 0] * torch.eye(m, dtype=columns.dtype)
        root = torch.linalg.cholesky(columns[:m] + jitter)
        lift_map = torch.linalg.inv(root).mT
        n_evaluated = m * (m + 1) // 2 + (m + 1) * (oracle.n_samples - m)
        return CompletedGram(columns @ lift_map, first, lift_map, n_evaluated)

    def n_values(self, n, observed_fraction):
        return 2 * n * self._count(n, observed_fraction)

    def _count(self, n, observed_fraction):
        return math.ceil(n * (1.0 - math.sqrt(1.0 - observed_fraction))) - 1


# Every strategy of the package that completes, as it is without arguments.
PUBLIC = [getattr(completion, name) for name in completion.__all__]
BUILT_IN = [cls() for cls in PUBLIC if cls is not completion.CompletedGram]
BUILT_IN = [part for part in BUILT_IN if isinstance(part, Completion)]
COMPLETIONS = [*BUILT_IN, FirstColumns()]


def name(part):
    return type(part).__name__


every_completion = pytest.mark.parametrize("part", COMPLETIONS, ids=name)
every_number = pytest.mark.parametrize(
    "number", range(len(COMPLETIONS)), ids=[name(part) for part in COMPLETIONS]
)
# Whether an iteration ends is for the tests of its part.
may_warn = pytest.mark.filterwarnings(
    "ignore:.*did not converge:sklearn.exceptions.ConvergenceWarning",
    "ignore:Features of the completion exceed:UserWarning",
)
# Estimators do the same with what few rounds make: whole iterations take seconds.
SHORT = {"IterativeSVD": 3, "MatrixFactorization": 3, "SoftImpute": 20}
IN_ESTIMATORS = [
    clone(part).set_params(max_iter=SHORT[name(part)]) if name(part) in SHORT else part
    for part in COMPLETIONS
]
in_estimators = pytest.mark.parametrize("part", IN_ESTIMATORS, ids=name)
every_built_in = pytest.mark.parametrize("part", BUILT_IN, ids=name)

N, SHARE = 60, 0.4
FEW = 24  # iterations over many tiles take long


class Oracle(PlainOracle):
    """Gives all that is known of samples."""

    def labels(self):
        return torch.arange(self.n_samples) % 3


def smooth_oracle(n=N, lengthscale=0.3):
    return Oracle(*smooth(n, lengthscale))


def completed_smooth(part, share=SHARE, seed=0, n=N):
    oracle = smooth_oracle(n)
    return part.complete(oracle, share, seeded(seed)), oracle


@functools.cache
def completed_once(number, share):
    """Return what one of the strategies makes; the tests that ask leave it alone."""
    return completed_smooth(COMPLETIONS[number], share)


def filled(completed):
    return completed.factor @ completed.factor.mT


def test_the_parts_of_the_package_are_here():
    assert {"Nystrom", "EnsembleNystrom"} <= {name(part) for part in BUILT_IN}


@every_completion
def test_is_a_completion(part):
    assert isinstance(part, Completion)


@every_built_in
def test_is_a_part_with_settings(part):
    assert clone(part) == part
    assert part.get_params(deep=False) == vars(part)
    assert eval(repr(part), {name(part): type(part)}) == part
    assert pickle.loads(pickle.dumps(part)) == part


@every_number
def test_factor_and_anchors_have_their_shapes(number):
    completed, _ = completed_once(number, SHARE)
    n, r = completed.factor.shape
    m = len(completed.anchors)
    assert n == N
    assert completed.lift_map.shape == (m, r)
    assert completed.factor.dtype == completed.lift_map.dtype == torch.float64
    assert completed.factor.isfinite().all()
    anchors = completed.anchors.tolist()
    assert len(set(anchors)) == m
    assert set(anchors) <= set(range(N))
    assert all(math.isfinite(value) for value in completed.stats.values())


@every_number
def test_matrix_is_symmetric_and_positive_semi_definite(number):
    completed, oracle = completed_once(number, SHARE)
    matrix = filled(completed)
    assert torch.equal(matrix, matrix.mT)
    assert float(torch.linalg.eigvalsh(matrix)[0]) > -1e-12 * N
    assert float((matrix - oracle.matrix).norm()) < 0.5 * float(oracle.matrix.norm())


@every_completion
def test_matrix_that_is_not_positive_semi_definite_is_no_trouble(part):
    if isinstance(part, FirstColumns):
        return
    matrix = smooth(FEW)[0] - 0.3 * torch.ones(FEW, FEW, dtype=torch.float64)
    completed = part.complete(Oracle(matrix, smooth(FEW)[1]), SHARE, seeded())
    assert completed.factor.isfinite().all()
    assert completed.lift_map.isfinite().all()


@every_completion
def test_the_generator_decides(part):
    first, _ = completed_smooth(part, seed=1, n=FEW)
    again, _ = completed_smooth(part, seed=1, n=FEW)
    assert torch.equal(first.factor, again.factor)
    assert torch.equal(first.lift_map, again.lift_map)
    assert torch.equal(first.anchors, again.anchors)
    assert first.stats == again.stats


@every_completion
def test_settings_and_matrix_are_left_as_they_were(part):
    oracle, before = smooth_oracle(FEW), copy.deepcopy(vars(part))
    matrix = oracle.matrix.clone()
    part.complete(oracle, SHARE, seeded())
    assert vars(part) == before
    assert torch.equal(oracle.matrix, matrix)


@every_number
@pytest.mark.parametrize(
    "share", [SHARE] + [pytest.param(s, marks=pytest.mark.slow) for s in (0.2, 0.9)]
)
def test_what_was_evaluated_is_counted_and_within_the_share(number, share):
    completed, oracle = completed_once(number, share)
    assert completed.n_evaluated == oracle.n_evaluated
    assert completed.n_evaluated <= share * N * (N + 1) / 2 + N  # the diagonal is free
    assert completed.n_evaluated > 0.8 * share * N * (N + 1) / 2


@every_number
def test_numbers_held_are_no_fewer_than_those_returned(number):
    completed, _ = completed_once(number, SHARE)
    held = COMPLETIONS[number].n_values(N, SHARE)
    assert isinstance(held, int)
    assert held >= completed.factor.numel() + completed.lift_map.numel()


@every_completion
def test_lifting_agrees_with_the_factor(part):
    matrix = low_rank(N, 2, noise=1e-6)
    completed = part.complete(Oracle(matrix, smooth(N)[1]), 0.7, seeded())
    lifted = completed.lift(matrix[:, completed.anchors])
    assert_close(lifted @ completed.factor.mT, filled(completed), torch.float32, "root")


@every_number
def test_error_is_told_or_not_known(number):
    completed, oracle = completed_once(number, SHARE)
    if isinstance(COMPLETIONS[number], FirstColumns):
        assert math.isnan(completed.error)
        return
    wrong = float((filled(completed) - oracle.matrix).square().mean().sqrt())
    assert 0.1 * wrong < completed.error < 10.0 * wrong
    spread = float(oracle.matrix.max() - oracle.matrix.min())
    assert 0.5 < completed.relative_rmse * spread / completed.error < 3.0


@every_built_in
@pytest.mark.parametrize("share", [0.0, -0.1, 1.01, math.nan])
def test_share_is_above_0_and_at_most_1(part, share):
    with pytest.raises(ValueError, match=r"observed_fraction.* must be"):
        part.complete(smooth_oracle(), share, seeded())


@every_built_in
def test_the_smallest_usable_share_is_named(part):
    with pytest.raises(CompletionError, match="smallest usable") as caught:
        part.complete(smooth_oracle(), 1e-5, seeded())
    named = re.search(r"smallest usable \w+ is (\S*\d)", str(caught.value))
    completed, _ = completed_smooth(part, float(named[1]))
    assert completed.factor.isfinite().all()


@every_built_in
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_entries_that_are_not_finite_are_refused(part, value):
    matrix, points = smooth(N)
    matrix = matrix + torch.full((N, N), value).fill_diagonal_(0.0)
    with pytest.raises(CompletionError, match="not finite"):
        part.complete(Oracle(matrix, points), SHARE, seeded())


def data(n=N):
    generator = np.random.default_rng(0)
    X = generator.uniform(size=(n, 2))
    weights = generator.uniform(0.3, 3.0, n)
    return X, np.sin(6.0 * X[:, 0]) - X[:, 1], weights, generator.uniform(size=(9, 2))


SETTINGS = {"dtype": "float64", "observed_fraction": SHARE, "random_state": 0}


class Recorder:
    """Completion that keeps what another one made; it is never copied.

    Iterations that end before they converge carry rounding errors far, so that only the
    very same completion can be compared with.
    """

    def __init__(self, part):
        self.part = part

    def __deepcopy__(self, memo):
        return self

    def complete(self, oracle, observed_fraction, generator):
        made = self.part.complete(oracle, observed_fraction, generator)
        self.made = replace(made, factor=made.factor.clone())
        return made

    def n_values(self, n, observed_fraction):
        return self.part.n_values(n, observed_fraction)


def regressor(part, **settings):
    return ConvNetGPRegressor(
        rbf(0.3), completion=part, normalize_y=False, **SETTINGS, **settings
    )


@may_warn
@in_estimators
def test_regressor_predicts_through_the_factor(part):
    X, y, weights, X_new = data()
    y = y - np.average(y, weights=weights)
    recorder = Recorder(part)
    gp = regressor(recorder, noise_variance=0.1).fit(X, y, sample_weight=weights)
    cross = gram_matrix(rbf(0.3), X_new, X, dtype="float64")
    completed = recorder.made
    lifted = completed.lift(torch.as_tensor(cross)[:, completed.anchors])
    dense = DensePosterior(
        filled(completed).numpy(),
        y[:, None],
        gp.noise_variance_,
        weights,
        mean_diag=1.0,
    )
    np.testing.assert_array_equal(gp.landmark_indices_, completed.anchors)
    between = (lifted @ completed.factor.mT).numpy()
    mean, std = gp.predict(X_new, return_std=True)
    assert_close(mean, dense.mean(between)[:, 0], kind="solve")
    explained = lifted.square().sum(1).numpy()
    learnt = np.diag(between @ dense.inverse @ between.T)
    var = np.maximum(1.0 - explained, 0.0) + explained - learnt
    expected = np.sqrt(var * dense.amplitude)
    assert gp.amplitude_ == pytest.approx(dense.amplitude, rel=1e-9)
    assert gp.fit_report_.n_pairs == completed.n_evaluated
    assert_close(plain(gp, std), expected, kind="solve")


@may_warn
@in_estimators
def test_noise_is_not_below_the_error(part):
    X, y, _, _ = data()
    recorder = Recorder(part)
    gp = regressor(recorder, noise_variance=1e-9).fit(X, y)
    error = recorder.made.error
    least = 1e-9 if math.isnan(error) else error
    assert gp.noise_variance_ == pytest.approx(max(least, 1e-9), rel=1e-6)


@may_warn
@in_estimators
def test_classifier_predicts_and_is_pickled_without_tensors(part):
    X, _, _, X_new = data()
    labels = np.digitize(X.sum(1), [0.8, 1.2])
    gp = ConvNetGPClassifier(rbf(0.3), completion=part, **SETTINGS).fit(X, labels)
    assert gp.score(X_new, np.digitize(X_new.sum(1), [0.8, 1.2])) > 0.6
    again = pickle.loads(pickle.dumps(gp))
    np.testing.assert_array_equal(again.predict_proba(X_new), gp.predict_proba(X_new))
    assert not any(isinstance(v, torch.Tensor) for v in vars(gp.solver_state_).values())


@may_warn
@in_estimators
def test_estimator_leaves_the_completion_alone(part):
    X, y, _, _ = data()
    gp = regressor(part)
    before = copy.deepcopy(vars(part))
    gp.fit(X, y)
    assert gp.completion is part
    assert vars(part) == before


@pytest.mark.parametrize("name", ["factor", "lift_map"])
def test_what_is_not_finite_is_laid_at_the_door_of_its_maker(name):
    class Broken(Recorder):
        def complete(self, *arguments):
            made = super().complete(*arguments)
            spoiled = getattr(made, name).clone()
            spoiled[0, 0] = math.nan
            return replace(made, **{name: spoiled})

        def __repr__(self):
            return "Broken()"

    X, y, _, _ = data()
    with pytest.raises(CompletionError, match=rf"`{name}` that Broken\(\) returned"):
        regressor(Broken(FirstColumns())).fit(X, y)


@pytest.mark.parametrize("wrong", ["nystrom", 3, object(), completion.Nystrom])
def test_what_is_no_completion_is_refused(wrong):
    X, y, _, _ = data()
    with pytest.raises(ValueError, match="'completion' parameter of ConvNetGPRegress"):
        regressor(wrong).fit(X, y)
