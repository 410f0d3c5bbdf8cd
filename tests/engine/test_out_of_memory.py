"""Where a device has no room for a tile, smaller ones give the same values."""

import re
import weakref
from contextlib import nullcontext

import pytest
import torch

from skconvgp._config import ComputeConfig
from skconvgp.backends import ReferenceBackend
from skconvgp.engine import KernelOracle, drop_cached_memory, on_device, pull_back
from skconvgp.engine._devices import TileSide
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import convnet
from tests.helpers.kernels import random_images
from tests.helpers.tiles import (
    PlaceBackend,
    PlacePullback,
    ScarceBackend,
    WatchedBackend,
    config,
    numbered_images,
    run_in_threads,
    run_shuffled,
    small_pullback,
    small_tiles,
)
from tests.helpers.tolerances import assert_close

CPU, GPU = torch.device("cpu"), torch.device("cuda")
IMAGES, OTHERS = numbered_images(41), numbered_images(29)
BLOCK, TILE = 20, 16  # blocks of 20, 20, 1 images; tiles of 16, 4
OutOfMemoryError = torch.cuda.OutOfMemoryError


def evaluated(backend, **settings):
    """Return all that an oracle computes."""
    oracle = KernelOracle(backend, IMAGES, config(), **settings)
    with small_tiles(BLOCK, TILE, 64):
        streamed = list(oracle.stream(OTHERS, 10))
        parts = [torch.cat(part) for part in zip(*streamed, strict=True)]
        return [oracle.gram(), oracle.cross(OTHERS), *parts]


@pytest.mark.parametrize("room", [1, 2, 5, 15, 16])
@pytest.mark.parametrize("runner", [run_shuffled, run_in_threads])
def test_smaller_tiles_give_the_same_bits(room, runner):
    scarce = ScarceBackend(PlaceBackend(True), room)
    for got, expected in zip(
        evaluated(scarce, runner=runner), evaluated(PlaceBackend(True)), strict=True
    ):
        assert torch.equal(got, expected)


@pytest.mark.parametrize(("room", "halvings"), [(1, 4), (5, 2), (15, 1), (16, 0)])
def test_the_side_that_fits_is_kept(room, halvings):
    scarce = ScarceBackend(PlaceBackend(True), room)
    evaluated(scarce)
    too_large = [max(sides) for sides in scarce.tiles if max(sides) > room]
    assert too_large == [TILE // 2**i for i in range(halvings)]
    assert max(map(max, scarce.tiles[halvings:])) == TILE // 2**halvings


def test_progress_counts_no_pair_twice():
    done = []
    oracle = KernelOracle(
        ScarceBackend(PlaceBackend(True), 3),
        IMAGES,
        config(),
        on_step=lambda pairs, total: done.append(pairs),
    )
    with small_tiles(BLOCK, TILE, 64):
        oracle.gram()
    assert done == sorted(set(done))
    assert done[-1] == 41 * 42 // 2


def test_no_room_for_a_pair_is_told():
    oracle = KernelOracle(ScarceBackend(PlaceBackend(True), 0), IMAGES, config())
    with pytest.raises(TileMemoryError, match="'cpu' has run out of memory") as caught:
        oracle.gram()
    assert isinstance(caught.value.__cause__, OutOfMemoryError)
    for part in ("`memory_budget`", "fewer samples", "limits of the process", "20 MiB"):
        assert part in str(caught.value)


def test_no_room_on_a_gpu_leads_to_the_cpu(monkeypatch):
    monkeypatch.setattr("skconvgp.engine._devices.full_precision", nullcontext)
    told = pytest.raises(TileMemoryError, match=r"'cuda' has run.*use device='cpu'")
    with told, on_device(GPU):
        raise OutOfMemoryError


def test_a_plan_that_does_not_fit_says_so_itself():
    def fail(side):
        raise TileMemoryError("raise the budget")

    with pytest.raises(TileMemoryError, match=r"^raise the budget$"), on_device(CPU):
        TileSide(CPU).shrink_to_fit(fail, 8)


@pytest.mark.parametrize("method", ["measure", "prepare", "diag"])
def test_no_room_beside_the_tiles_is_told(method, monkeypatch):
    def fail(*args):
        raise OutOfMemoryError("tried to allocate 20 MiB")

    backend = PlaceBackend(True)
    monkeypatch.setattr(backend, method, fail)
    for evaluate in ("diag", "gram"):
        oracle = KernelOracle(backend, IMAGES, config())
        with pytest.raises(TileMemoryError, match="run out of memory"):
            getattr(oracle, evaluate)()


def test_no_room_for_the_matrix_is_told(monkeypatch):
    def fail(*args, **settings):
        raise OutOfMemoryError("tried to allocate 20 GiB")

    oracle = KernelOracle(PlaceBackend(True), IMAGES, config())
    monkeypatch.setattr(torch, "empty", fail)
    with pytest.raises(TileMemoryError, match="20 GiB"):
        oracle.gram()


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate`",
        "CUDA error: out of memory",
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't "
        "allocate memory: you tried to allocate 8000000000000 bytes.",
        "DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes.",
        "std::bad_alloc",
    ],
)
def test_libraries_that_find_no_memory(message):
    def compute(side):
        if side > 2:
            raise RuntimeError(message)
        return side

    assert TileSide(CPU).shrink_to_fit(compute, 8) == 2
    told = pytest.raises(TileMemoryError, match=f"has run out.*{re.escape(message)}")
    with told, on_device(CPU):
        raise RuntimeError(message)


def test_other_errors_are_no_lack_of_memory():
    sides = []

    def fail(side):
        sides.append(side)
        raise RuntimeError("an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal"), on_device(CPU):
        TileSide(CPU).shrink_to_fit(fail, 8)
    assert sides == [8]


def test_what_a_tile_held_is_free_before_the_next_attempt():
    held = []

    def compute(side):
        assert all(tensor() is None for tensor in held)
        tensor = torch.ones(side)
        held.append(weakref.ref(tensor))
        if side > 1:
            raise OutOfMemoryError
        return side

    assert TileSide(CPU).shrink_to_fit(compute, 8) == 1
    assert len(held) == 4


@pytest.fixture
def emptied(monkeypatch):
    """Return a list that grows with each call of torch.cuda.empty_cache."""
    calls = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("empty_cache"))
    return calls


@pytest.mark.parametrize(("device", "n_calls"), [(CPU, 0), (GPU, 2)])
def test_cached_memory_of_a_gpu_is_dropped_before_each_attempt(
    device, n_calls, emptied
):
    def compute(side):
        assert len(emptied) == (0 if device == CPU else {8: 0, 4: 1, 2: 2}[side])
        if side > 2:
            raise OutOfMemoryError
        return side

    assert TileSide(device).shrink_to_fit(compute, 8) == 2
    assert len(emptied) == n_calls


def test_the_cpu_has_no_cached_memory(emptied):
    drop_cached_memory(CPU)
    assert emptied == []


@pytest.fixture
def small_gpu():
    """Leave 256 MiB of the GPU to this process."""
    torch.cuda.empty_cache()
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(2**28 / total)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.gpu
def test_tiles_that_a_gpu_has_no_room_for_give_the_same_matrix(small_gpu):
    images = random_images(300, 1, 28, 28)
    backend = WatchedBackend(ReferenceBackend(convnet(depth=2, kernel_size=3)))
    place = ComputeConfig(GPU, memory_budget=2**36)
    with small_tiles(128, 128, 8 * 8 * 28**2):  # 98 MiB a map
        gram = KernelOracle(backend, images, place).gram()
    assert max(map(max, backend.tiles)) < 128
    expected = KernelOracle(backend, images, config()).gram()
    assert_close(gram.to(CPU), expected)


class ScarcePullback(PlacePullback):
    """Runs out of memory in tiles with a side above `room`."""

    def __init__(self, room):
        self.room = room
        self.sides = []

    def pull(self, one, two, weights):
        self.sides.append(max(weights.shape))
        if max(weights.shape) > self.room:
            raise OutOfMemoryError("tried to allocate 20 MiB")
        return super().pull(one, two, weights)


@pytest.mark.parametrize("room", [1, 5, 16])
@pytest.mark.parametrize("runner", [run_shuffled, run_in_threads])
def test_smaller_tiles_pull_back_the_same(room, runner):
    generator = torch.Generator().manual_seed(2)
    weights = torch.randint(-9, 9, (41, 29), generator=generator).double()
    square = weights @ weights.mT  # sums of whole numbers are exact
    for others, part in ((OTHERS, weights), (None, square)):
        with small_pullback(BLOCK, TILE):
            got, expected = (
                pull_back(backend, IMAGES, others, part, config(), runner)
                for backend in (ScarcePullback(room), PlacePullback())
            )
        for one, two in zip(got, expected, strict=True):
            assert torch.equal(one, two)


def test_the_side_that_fits_is_kept_in_a_pass_back():
    scarce = ScarcePullback(5)
    with small_pullback(BLOCK, TILE):
        pull_back(scarce, IMAGES, None, torch.ones(41, 41), config())
    assert scarce.sides[:2] == [16, 8]
    assert max(scarce.sides[2:]) == 4


def test_no_room_for_a_pass_back_is_told():
    with pytest.raises(TileMemoryError, match="'cpu' has run out of memory"):
        pull_back(ScarcePullback(0), IMAGES, None, torch.ones(41, 41), config())
