"""Jobs that go to other processes, and what is sent with them."""

import weakref

import numpy as np
import pytest
import torch

from skconvgp._config import ComputeConfig
from skconvgp.backends import choose_backend
from skconvgp.engine import KernelOracle
from skconvgp.estimators.compute._parcels import Parcels, open_parcel
from skconvgp.kernels import convnet, rbf

IMAGES = torch.rand(90, 1, 8, 8, generator=torch.Generator().manual_seed(0))


class Postman:
    """Runs jobs that were packed, and weighs what was sent."""

    def __init__(self):
        self.bytes_of_jobs = []
        self.sent = {}  # by the arrays themselves
        self.n_arguments = 0

    def __call__(self, jobs):
        parcels = Parcels()
        for job in jobs:
            packed, arrays = parcels.pack(job)
            self.bytes_of_jobs.append(len(packed))
            self.n_arguments += len(arrays)
            self.sent |= {id(array): array for array in arrays}
            yield open_parcel(packed, tuple(arrays))()


def oracle(kernel, runner, memory_budget):
    choice = choose_backend(kernel, (1, 8, 8), "auto", torch.device("cpu"))
    config = ComputeConfig(
        torch.device("cpu"), torch.float32, memory_budget=memory_budget, n_workers=2
    )
    return KernelOracle(choice.tiles(), IMAGES, config, runner)


@pytest.mark.parametrize("budget", [2**18, 2**21])
@pytest.mark.parametrize("kernel", [convnet(depth=1, kernel_size=3), rbf(4.0)])
def test_images_and_tables_are_sent_once(kernel, budget, monkeypatch):
    monkeypatch.setattr("skconvgp.engine._plan.SMALL_BYTES", 0)  # several blocks
    expected = oracle(kernel, lambda jobs: (job() for job in jobs), budget).gram()
    postman = Postman()
    gram = oracle(kernel, postman, budget).gram()
    assert torch.equal(gram, expected)
    assert postman.n_arguments > len(postman.sent)  # blocks share them
    sent = [array.nbytes for array in postman.sent.values()]
    images = [a.nbytes for a in postman.sent.values() if a.shape[1:] == (1, 8, 8)]
    assert sum(images) == IMAGES.numpy().nbytes
    assert max(postman.bytes_of_jobs) < 20_000
    assert sum(sent) < 40 * IMAGES.numpy().nbytes


def test_the_rest_of_a_view_stays_behind():
    packed, (array,) = Parcels().pack(IMAGES[3:50].sum)
    assert len(packed) < 1000
    np.testing.assert_array_equal(array, IMAGES[3:50])
    assert open_parcel(packed, (array,))() == IMAGES[3:50].sum()


def test_an_array_that_cannot_be_written_to_is_copied():
    packed, (array,) = Parcels().pack(IMAGES.mT.contiguous().mT.sum)
    array = array.copy("K")
    array.setflags(write=False)
    summed = open_parcel(packed, (array,))
    assert summed.__self__.stride() == IMAGES.mT.contiguous().mT.stride()
    assert summed() == pytest.approx(float(IMAGES.sum()))


def test_what_one_job_needs_is_not_kept():
    parcels = Parcels()
    _, (array,) = parcels.pack((2.0 * IMAGES).sum)
    kept = weakref.ref(array)
    del array
    assert kept() is None


def test_small_tensors_stay_in_their_job():
    _, arrays = Parcels().pack(torch.ones(3).sum)
    assert not arrays
