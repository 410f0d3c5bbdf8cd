"""Which samples are near: by angle and by distance."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from skconvgp.completion import NearestNeighbors
from tests.helpers.oracles import seeded

METRICS = {
    "cosine": lambda x, y: -(x @ y) / np.linalg.norm(x) / np.linalg.norm(y),
    "euclidean": lambda x, y: np.linalg.norm(x - y),
}


def some_points(n, seed, dtype=torch.float64):
    return torch.randn(n, 6, generator=seeded(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_order_is_that_of_the_metric(metric, dtype):
    new, points = some_points(5, 0, dtype), some_points(40, 1, dtype)
    before = new.clone(), points.clone()
    found = NearestNeighbors(metric=metric).similarities(new, points)
    distances = [
        [METRICS[metric](x, y) for y in points.double().numpy()]
        for x in new.double().numpy()
    ]
    assert found.shape == (5, 40)
    np.testing.assert_array_equal(
        found.argsort(dim=1, descending=True), np.argsort(distances, axis=1)
    )
    assert torch.equal(new, before[0])
    assert torch.equal(points, before[1])


def test_points_far_from_zero_keep_their_neighbours():
    # The squared distances are 1e-7 of the squared lengths, and less: float32 has none.
    points = 1e4 + some_points(200, 0)
    points[:, 0] = torch.arange(200.0) + 1e6
    points = points.to(torch.float32)
    found = NearestNeighbors(metric="euclidean").similarities(points, points)
    distances = cdist(points.double().numpy(), points.double().numpy())
    np.testing.assert_array_equal(
        found.argsort(dim=1, descending=True)[:, :20],
        np.argsort(distances, axis=1)[:, :20],
    )


@pytest.mark.parametrize("metric", METRICS)
def test_points_at_zero_have_finite_similarities(metric):
    points = torch.cat([torch.zeros(1, 6), some_points(3, 0, torch.float32)])
    found = NearestNeighbors(metric=metric).similarities(points, points)
    assert found.isfinite().all()


def test_there_are_no_more_neighbors_than_samples():
    assert NearestNeighbors().count(1000) == 100
    assert NearestNeighbors(np.int64(7)).count(1000) == 7
    assert NearestNeighbors().count(3) == 3


@pytest.mark.parametrize("metric", ["kernel", "manhattan", None, 2])
def test_other_metrics_are_refused(metric):
    with pytest.raises(
        ValueError, match=r"'metric' parameter.*'cosine' or 'euclidean'"
    ):
        NearestNeighbors(metric=metric).count(10)
