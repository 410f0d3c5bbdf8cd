"""Copies of large tensors in parts: every number arrives, whatever the layout."""

import pytest
import torch

from skconvgp.engine import _transfer
from skconvgp.engine._transfer import to_device, to_host

HOST = torch.device("cpu")


def through_a_buffer(target, source, buffer):
    buffer.copy_(source)
    target.copy_(buffer)


LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.mT,
    "every second": lambda x: x[:, ::2],
    "a vector": lambda x: x[0],
    "three axes": lambda x: x.reshape(len(x), 5, -1),
    "nothing": lambda x: x[:0],
}


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_number_arrives(layout, n_threads, monkeypatch):
    monkeypatch.setattr(_transfer, "PART_BYTES", 1000)  # no part of it is a whole row
    monkeypatch.setattr(torch, "get_num_threads", lambda: n_threads)
    given = LAYOUTS[layout](torch.rand(67, 85, dtype=torch.float64))
    copy = _transfer._copied(given, HOST, through_a_buffer)
    assert torch.equal(copy, given)
    if layout != "every second":  # torch copies what is not dense
        assert copy.stride() == given.stride()
        assert not given.numel() or copy.data_ptr() != given.data_ptr()


def test_what_lies_on_the_host_is_not_copied():
    given = torch.rand(3, 4)
    assert to_host(given) is given
    assert to_device(given, HOST) is given
