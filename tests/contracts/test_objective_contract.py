"""What every objective does, and a third-party one to prove the seam."""

import copy
import pickle

import pytest
import torch
from sklearn.base import clone

from skconvgp._protocols import Objective, Score
from skconvgp.flows import Rho
from skconvgp.flows._scores import KINDS
from tests.helpers.kernels import name
from tests.helpers.oracles import seeded, smooth
from tests.helpers.tolerances import assert_close


class Alignment:
    """Third-party objective: one minus the alignment with the targets' own matrix."""

    noise_variance = 0.0

    def count(self, n):
        return n - 1

    def score(self, gram, targets, noise_variance=None):
        gram = gram.clone().requires_grad_()
        outer = targets @ targets.mT
        value = 1.0 - (gram * outer).sum() / (gram.norm() * outer.norm())
        (by_gram,) = torch.autograd.grad(value, gram)
        return Score(float(value.detach()), (by_gram + by_gram.mT) / 2.0)


BUILT_IN = [Rho(kind, noise_variance=0.02) for kind in KINDS]
OBJECTIVES = [*BUILT_IN, Alignment()]
every_objective = pytest.mark.parametrize("part", OBJECTIVES, ids=name)
every_built_in = pytest.mark.parametrize("part", BUILT_IN, ids=name)

N = 12


def batch():
    gram, points = smooth(N, 0.4)
    return 2.0 * gram, torch.sin(5.0 * points)


@every_objective
def test_is_an_objective(part):
    assert isinstance(part, Objective)
    assert part.noise_variance >= 0.0


@every_built_in
def test_is_a_part_with_settings(part):
    assert clone(part) == part
    assert part.get_params() == vars(part)
    assert eval(repr(part), {"Rho": Rho}) == part
    assert pickle.loads(pickle.dumps(part)) == part


@every_objective
def test_sample_is_a_part_of_the_batch(part):
    assert all(1 <= part.count(n) < n for n in range(2, 40))


@every_objective
def test_score_is_a_number_with_symmetric_derivatives(part):
    gram, targets = batch()
    score = part.score(gram, targets)
    assert isinstance(score.value, float)
    assert isinstance(score.by_parameter, float)
    assert score.by_gram.shape == gram.shape
    assert score.by_gram.dtype == torch.float64
    assert_close(score.by_gram, score.by_gram.mT)


@every_objective
def test_derivatives_are_those_of_the_value(part):
    gram, targets = batch()
    change = torch.randn(N, N, dtype=torch.float64, generator=seeded())
    change = change + change.mT
    ends = [part.score(gram + h * change, targets).value for h in (1e-6, -1e-6)]
    found = float((part.score(gram, targets).by_gram * change).sum())
    assert found == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4)


@every_objective
def test_settings_and_batch_are_left_as_they_were(part):
    gram, targets = batch()
    before = gram.clone(), targets.clone(), copy.deepcopy(vars(part))
    first, again = part.score(gram, targets), part.score(gram, targets)
    assert first.value == again.value
    assert torch.equal(gram, before[0])
    assert torch.equal(targets, before[1])
    assert vars(part) == before[2]
