"""Means of clusters, against plain loops."""

import pytest
import torch

from skconvgp.linalg import cluster_means


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@pytest.mark.parametrize("block", [1, 7, 100])
def test_means_are_those_of_the_nearest_points(precision, block):
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(60, 3, generator=generator, dtype=torch.float64)
    centres = torch.cat([points[:5], points[:1] + 100.0])
    points = points.to(precision)
    found = cluster_means(points.split(block), centres)
    assert found.dtype == torch.float64
    nearest = torch.cdist(points.double(), centres).argmin(1)
    for k, centre in enumerate(centres):
        own = points[nearest == k].double()
        expected = own.mean(0) if len(own) else centre
        torch.testing.assert_close(found[k], expected, rtol=0, atol=1e-12)


def test_rounds_find_clusters_that_are_apart():
    generator = torch.Generator().manual_seed(1)
    middles = 10.0 * torch.eye(4, dtype=torch.float64)
    noise = torch.randn(80, 4, generator=generator, dtype=torch.float64)
    points = middles.repeat(20, 1) + noise
    centres = points[:4]
    for _ in range(5):
        centres = cluster_means([points], centres)
    for k in range(4):
        torch.testing.assert_close(centres[k], points[k::4].mean(0))
