import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    """Threads slow small tensors down where cores are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
