"""Rows that are left out together, and blocks of an inverse."""

import numpy as np
import pytest
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


def test_groups_that_share_inputs_become_one():
    # Inputs of eight samples; 1 and 6 are equal, and 3 and 4.
    of = torch.tensor([0, 1, 2, 3, 3, 4, 1, 5])
    inputs = EqualInputs(of).with_groups(torch.tensor([7, 7, 9, 2, 5, 5, 2, 1]))
    assert inputs.groups.tolist() == [1, 1, 2, 1, 1, 1, 1, 0]
    found = {
        image: left.members[which].tolist()
        for left in inputs.blocks()
        for image, which in zip(left.images.tolist(), left.which, strict=True)
    }
    assert found[2] == [2]
    assert found[7] == [5]
    for image in (0, 1, 3, 4, 5, 6):
        assert found[image] == [0, 1, 3, 4]
    weights, codes = torch.arange(1.0, 9.0), torch.tensor([0, 1, 0, 0, 1, 0, 0, 1])
    # A sample leaves with copies of it, and the class of its group with the group.
    assert inputs.removed(weights).tolist() == [1, 9, 3, 9, 9, 6, 9, 8]
    own = inputs.removed_of_class(weights, codes)
    assert own.tolist() == [18, 7, 3, 18, 7, 18, 18, 8]
    assert not inputs.staying(weights).any()
    taken = inputs.take(torch.tensor([6, 2, 0]))
    assert taken.groups.tolist() == [0, 1, 0]
    single = EqualInputs(of).with_groups(torch.tensor([3, 1, 5, 2, 2, 4, 1, 0]))
    assert single.groups is None


def test_images_of_a_group_are_left_out_with_all_their_versions():
    # Two versions of four images; 0 and 1 have a version in common.
    of = torch.tensor([[0, 1, 2, 3], [4, 4, 5, 3]]).flatten()
    inputs = EqualInputs(of, 2).with_groups(torch.tensor([0, 1, 0, 2]))
    found = {
        image: left.members[which].tolist()
        for left in inputs.blocks()
        for image, which in zip(left.images.tolist(), left.which, strict=True)
    }
    assert found == {0: [0, 2, 4, 5], 1: [1, 4], 2: [0, 2, 4, 5], 3: [3]}


@pytest.mark.parametrize("n_zeros", [0, 3])
@pytest.mark.parametrize("size", [3, 12])
def test_blocks_of_all_sizes_are_those_of_the_inverse(size, n_zeros):
    features = np.random.default_rng(0).normal(size=(24, 24 - n_zeros))
    values, vectors = np.linalg.eigh(features @ features.T)
    spectrum = Spectrum(
        torch.tensor(values[n_zeros:]), torch.tensor(vectors[:, n_zeros:])
    )
    noises, members = torch.tensor([0.1, 2.0]).double(), torch.arange(24)
    members = members.reshape(-1, size)
    blocks = spectrum.inverse_blocks(members, noises).numpy()
    for i, noise in enumerate(noises.tolist()):
        inverse = np.linalg.inv(features @ features.T + noise * np.eye(24))
        for group, block in zip(members.tolist(), blocks[..., i], strict=True):
            np.testing.assert_allclose(block, inverse[np.ix_(group, group)])


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
