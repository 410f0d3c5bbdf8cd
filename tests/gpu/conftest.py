"""The tests of this folder are for a GPU, and say so where there is none."""

import pytest
import torch

from skconvgp.backends import missing_extension
from skconvgp.backends._fused_cuda import unusable_gpu
from tests.helpers.gpu import GPU


@pytest.fixture(scope="session", autouse=True)
def gpu():
    """End the run at once where the tests could only fail."""
    missing = missing_extension()
    if not torch.cuda.is_available():
        missing = f"torch {torch.__version__} finds no GPU"
        if torch.version.cuda is None:
            missing += ": it is a build without CUDA"
    missing = missing or unusable_gpu(GPU)
    if missing:
        pytest.exit(f"The tests for a GPU cannot run: {missing}.", returncode=1)
    torch.zeros(1, device=GPU)
