"""What the training of an encoder and its head minimises."""

import pytest
import torch

from skconvgp.networks._coding import COEF, ENCODER, INTERCEPT, CodingTask

DOUBLE = {"dtype": torch.float64}
PARAMETERS = {
    f"{ENCODER}weight": torch.tensor([[[1.0, 2.0], [3.0, 0.5]]], **DOUBLE),
    f"{ENCODER}bias": torch.tensor([[10.0, 20.0]], **DOUBLE),
    COEF: torch.tensor([[[0.5], [2.0]]], **DOUBLE),
    INTERCEPT: torch.tensor([[30.0]], **DOUBLE),
}


class Rows:
    """Samples whose losses are their own indices."""

    def batch(self, parameters, rows, generator):
        return rows.to(torch.float64)


@pytest.mark.parametrize(
    ("penalties", "penalty"),
    [((0.0, 0.0), 0.0), ((1.0, 0.0), 14.25), ((0.0, 1.0), 4.25), ((2.0, 4.0), 45.5)],
)
def test_weights_are_penalised_and_biases_are_not(penalties, penalty):
    rows = torch.tensor([1, 2, 6, 7, 9])
    task = CodingTask(
        Rows(), rows, lambda losses: losses, penalties, 2, torch.Generator()
    )
    assert float(task(PARAMETERS)) == pytest.approx(5.0 + penalty)
    on_some = task.on_batch(PARAMETERS, torch.tensor([2, 4]))
    assert float(on_some) == pytest.approx(7.5 + penalty)
