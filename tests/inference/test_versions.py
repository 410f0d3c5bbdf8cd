"""Rows that are left out together, and blocks of an inverse."""

import numpy as np
import torch

from skconvgp.inference import EqualInputs
from skconvgp.inference._spectrum import Spectrum


def test_images_are_left_out_with_all_their_inputs():
    # Three versions of six images: 0 and 1 share input 9, 1 and 2 share input 10.
    of = torch.tensor([[0, 1, 2, 3, 4, 5], [9, 9, 10, 6, 4, 7], [8, 10, 11, 6, 4, 12]])
    inputs = EqualInputs(of.flatten(), 3)
    found = {
        image: row
        for images, members in inputs.versions()
        for image, row in zip(images.tolist(), members.tolist(), strict=True)
    }
    expected = [[0, 8, 9], [1, 9, 10], [2, 10, 11], [3, 6], [4], [5, 7, 12]]
    assert found == dict(enumerate(expected))
    weights = torch.ones(18, dtype=torch.float64)
    assert inputs.removed(weights).tolist() == [4.0, 5.0, 4.0, 3.0, 3.0, 3.0]
    assert inputs.n_left_out == 6


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
