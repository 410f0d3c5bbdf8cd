"""Products of rows with each other, from those with earlier ones."""

import pytest
import torch

from skconvgp.linalg import _symmetric, own_products


@pytest.mark.parametrize("n", [0, 1, 6, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_with_earlier_rows_are_all_products(n, dtype, monkeypatch):
    monkeypatch.setattr(_symmetric, "STRIP", 3)
    rows = torch.randn(n, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    found = own_products(rows)
    assert found.dtype == dtype
    assert torch.equal(found, found.mT)
    expected = torch.stack([(rows * row).sum(1) for row in rows]) if n else found
    torch.testing.assert_close(found, expected)
