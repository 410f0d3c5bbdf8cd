"""The warning about activations whose series may be inaccurate."""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp.engine import slices
from skconvgp.estimators._warn import warn_caller
from skconvgp.kernels import Elementwise, Kernel
from skconvgp.kernels._quadrature import series_error
from skconvgp.processes import Basis

LARGEST_ERROR = 1e-3  # of variances
AT_ONCE = 64  # images


def warn_of_series(kernel: Kernel, *sides: Tensor) -> None:
    """Warn if a quadrature may be wrong at the variances of images (n, c, h, w)."""
    if not any(isinstance(part, Elementwise) for part in _parts(kernel)):
        return
    with torch.no_grad():
        error = max(
            series_error(kernel.prepare(images[part].to(torch.float64)))
            for images in sides
            for part in slices(len(images), AT_ONCE)
        )
    if error > LARGEST_ERROR:
        warn_caller(
            f"An `Elementwise` of {kernel!r} may be wrong by {error:.1%} of the "
            "variances of these samples, as its inputs vary too much for the series: "
            "use Tanh(), Sigmoid(), SiLU(), Softplus(), Erf(), GELU() or Sin() if it "
            "is one of them, otherwise smaller weight variances or more `n_nodes`.",
            UserWarning,
        )


def warn_of_basis(basis: Basis, rows: NDArray[Any] | None = None) -> None:
    """Warn if a kernel may be wrong at the variances of samples, by default its own."""
    for compared in basis.compared:
        warn_of_series(compared.kernel, compared.images(rows))


def _parts(kernel: Kernel) -> list[object]:
    return [kernel, *kernel.get_params().values()]
