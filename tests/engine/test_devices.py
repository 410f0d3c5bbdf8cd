"""Free memory and full precision."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from skconvgp.engine import (
    _devices,
    finish_on_gpu,
    free_memory,
    full_precision,
    gpu_memory,
    require_memory,
    use_gpu,
    wait_for,
)
from skconvgp.exceptions import TileMemoryError

CPU = torch.device("cpu")
GPU = torch.device("cuda")


@pytest.fixture
def gpu(monkeypatch):
    """Let torch know a GPU of which 5000 bytes are free, and 300 kept by torch."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (5000, 9000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 1300)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 1000)


def test_what_is_needed_and_free_is_in_the_error(monkeypatch):
    monkeypatch.setattr(_devices, "free_memory", lambda _: 1000)
    require_memory(1000, CPU, "A matrix", "take fewer samples.")
    with pytest.raises(TileMemoryError) as caught:
        require_memory(1001, CPU, "A matrix", "take fewer samples.")
    message = str(caught.value)
    assert message.startswith("A matrix needs 1001 bytes")
    assert "1000 bytes" in message
    assert message.endswith("take fewer samples.")


def test_what_torch_keeps_of_a_gpu_for_later_is_free(gpu):
    assert free_memory(GPU) == gpu_memory() == 5300


def test_without_a_gpu_there_is_no_memory_of_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_memory() is None


def test_a_gpu_that_cannot_be_opened_has_nothing_free(gpu, monkeypatch):
    def refuse(device):
        raise RuntimeError("CUDA-capable device(s) is/are busy or unavailable")

    monkeypatch.setattr(torch.cuda, "mem_get_info", refuse)
    assert gpu_memory() == 0


def test_a_thread_that_takes_a_gpu_waits_for_it_once(monkeypatch):
    # That makes the context: to be the current GPU alone makes none.
    calls = []
    for name in ("set_device", "synchronize"):
        monkeypatch.setattr(
            torch.cuda, name, lambda i, name=name: calls.append((name, i))
        )
    use_gpu(0)
    assert calls == [("set_device", 0), ("synchronize", 0)]


def test_what_is_waited_for_is_the_stream_of_the_thread(monkeypatch):
    waits = []
    stream = SimpleNamespace(synchronize=lambda: waits.append("stream"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    finish_on_gpu()
    assert waits == ["stream"]


@pytest.mark.parametrize(("device", "waited"), [(CPU, []), (GPU, [GPU])])
def test_only_a_gpu_is_waited_for(device, waited, monkeypatch):
    waits = []
    monkeypatch.setattr(torch.cuda, "synchronize", waits.append)
    wait_for(device)
    assert waits == waited


class Switch:
    """What torch.backends.cuda.matmul is, before and since torch 2.9."""

    def __init__(self, name, value):
        setattr(self, name, value)
        self.name = name


@pytest.fixture(params=[("allow_tf32", True), ("fp32_precision", "tf32")])
def switch(request, monkeypatch):
    switch = Switch(*request.param)
    monkeypatch.setattr(torch.backends.cuda, "matmul", switch)
    return switch


def test_full_precision_switches_tf32_off_and_back(switch):
    before = getattr(switch, switch.name)
    with full_precision(torch.device("cuda")):
        assert getattr(switch, switch.name) in (False, "ieee")
    assert getattr(switch, switch.name) == before


def test_full_precision_switches_back_after_an_error(switch):
    before = getattr(switch, switch.name)
    with pytest.raises(KeyError), full_precision(torch.device("cuda")):
        raise KeyError
    assert getattr(switch, switch.name) == before


def test_full_precision_leaves_the_switch_alone_on_the_cpu(switch):
    before = getattr(switch, switch.name)
    with full_precision(torch.device("cpu")):
        assert getattr(switch, switch.name) == before


def test_threads_that_leave_full_precision_do_not_end_that_of_others(switch):
    before = getattr(switch, switch.name)
    first, second = (full_precision(torch.device("cuda")) for _ in range(2))
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:
        one.submit(first.__enter__).result()
        two.submit(second.__enter__).result()
        one.submit(first.__exit__, None, None, None).result()
        assert getattr(switch, switch.name) in (False, "ieee")
        two.submit(second.__exit__, None, None, None).result()
    assert getattr(switch, switch.name) == before
