"""Groups of rows that are left out together, and blocks of an inverse."""

import numpy as np
import torch

from skconvgp.inference import EqualInputs, members_by_size
from skconvgp.inference._spectrum import Spectrum


def test_images_are_left_out_with_those_that_share_a_version_through_others():
    # Three versions of six images: 0 and 1 share input 9, 1 and 2 share input 10.
    of = torch.tensor([[0, 1, 2, 3, 4, 5], [9, 9, 10, 6, 4, 7], [8, 10, 11, 6, 4, 12]])
    inputs = EqualInputs(of.flatten(), 3)
    groups = inputs.groups()
    assert inputs.n_groups == 4
    together = [
        set(torch.nonzero(groups == group)[:, 0].tolist()) for group in range(4)
    ]
    assert together == [{0, 1, 2, 8, 9, 10, 11}, {3, 6}, {4}, {5, 7, 12}]
    blocks = [members.tolist() for members in members_by_size(groups)]
    assert blocks == [[[4]], [[3, 6]], [[5, 7, 12]], [[0, 1, 2, 8, 9, 10, 11]]]
    weights = torch.ones(18, dtype=torch.float64)
    assert inputs.removed(weights)[:6].tolist() == [9.0, 9.0, 9.0, 3.0, 3.0, 3.0]


def test_blocks_of_the_inverse_count_what_features_do_not_span():
    features = np.random.default_rng(0).normal(size=(6, 3))
    values, vectors = np.linalg.eigh(features @ features.T)
    spectrum = Spectrum(torch.tensor(values[3:]), torch.tensor(vectors[:, 3:]))
    noises, members = torch.tensor([0.1, 2.0]).double(), torch.tensor([[0, 4], [5, 1]])
    blocks = spectrum.inverse_blocks(members, noises).numpy()
    for i, noise in enumerate(noises.tolist()):
        inverse = np.linalg.inv(features @ features.T + noise * np.eye(6))
        for group, block in zip(members.tolist(), blocks[..., i], strict=True):
            np.testing.assert_allclose(block, inverse[np.ix_(group, group)])
