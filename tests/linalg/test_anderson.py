"""Anderson's acceleration: fewer rounds to the same fixed point."""

import torch

from skconvgp.linalg import Anderson
from tests.helpers.oracles import seeded
from tests.helpers.tolerances import assert_close

RATES = torch.linspace(0.1, 0.99, 8, dtype=torch.float64)[:, None]


def linear(x):
    return RATES * x + 1.0


def test_linear_map_is_solved_in_as_many_rounds_as_it_has_rates():
    x, acceleration = torch.zeros(8, 1, dtype=torch.float64), Anderson(depth=8)
    for _ in range(10):
        x = acceleration.next(x, linear(x))
    assert_close(x, 1.0 / (1.0 - RATES), kind="root")


def test_fewer_rounds_than_without():
    def curved(x):
        return 0.98 * rates * torch.sin(x) + 0.01

    rates = torch.linspace(0.5, 1.0, 5, dtype=torch.float64)[:, None]
    plain = quick = torch.rand(5, 2, generator=seeded(), dtype=torch.float64)
    acceleration = Anderson()
    for _ in range(25):
        plain, quick = curved(plain), acceleration.next(quick, curved(quick))
    residuals = [(curved(x) - x).norm() for x in (plain, quick)]
    assert residuals[1] < 1e-3 * residuals[0]


def test_what_made_it_worse_is_forgotten():
    acceleration, zero = Anderson(), torch.zeros(2, 1)
    acceleration.next(zero, zero + 1.0)
    worse = torch.tensor([[5.0], [-5.0]])
    assert torch.equal(acceleration.next(zero, worse), worse)


def test_fixed_point_stays():
    acceleration, one = Anderson(), torch.ones(3, 2)
    for _ in range(4):
        assert torch.equal(acceleration.next(one, one), one)
