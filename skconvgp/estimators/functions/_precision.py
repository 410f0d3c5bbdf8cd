"""Whether the arithmetic of a device is as precise as the package needs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp._ambient import public
from skconvgp._config import ComputeConfig
from skconvgp._protocols import TileBackend
from skconvgp.backends import BackendChoice, ReferenceBackend, choose_backend
from skconvgp.engine import KernelOracle, Placement, compute_at
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.settings._compute import Compute
from skconvgp.exceptions import NotPSDError
from skconvgp.kernels import convnet
from skconvgp.linalg import shifted_cholesky_

CPU = torch.device("cpu")
KERNEL = convnet(depth=3, kernel_size=5)
N_IMAGES, IMAGE_SHAPE = 32, (1, 12, 12)
SIDE = 256  # of the matrices multiplied
NOISE = 1e-4  # on the diagonal of the matrix factored

# Errors of covariances relative to sqrt(K_ii K_jj) (docs/adr/precision.md). The bound
# for a GPU is larger, because its maker's roots and inverse cosines are less precise.
FLOAT32_BOUNDS = {"cpu": 2e-6, "cuda": 1e-5}
FLOAT64_BOUND = 1e-11
# Errors are near 1e-7 in float32, and near 1e-4 in TF32 with its mantissa of 10 bits.
PRODUCT, PRODUCT_BOUND = "float32 matrix product", 2e-6


@dataclass(frozen=True, repr=False)
class PrecisionReport:
    """Errors of the arithmetic of a device; `repr` shows them as a table.

    Parameters
    ----------
    device : str
        The device.
    backend : str
        Backend that computed the covariances.
    errors : dict
        The largest relative error of each kind of computation.
    bounds : dict
        The largest allowed error of each kind.

    Examples
    --------
    >>> from skconvgp import check_precision
    >>> report = check_precision("cpu")
    >>> report.device
    'cpu'
    """

    device: str
    backend: str
    errors: Mapping[str, float]
    bounds: Mapping[str, float]

    @property
    def ok(self) -> bool:
        """Whether every error is a number within its bound."""
        return all(self.errors[name] <= bound for name, bound in self.bounds.items())

    def __repr__(self) -> str:
        """Return the errors as a table."""
        lines = [f"{self.device}, {self.backend} backend: error, bound"]
        for name, bound in self.bounds.items():
            error = self.errors[name]
            verdict = "ok" if error <= bound else "TOO LARGE"
            lines.append(f"{name:<23} {error:7.1e}  {bound:7.1e}  {verdict}")
        return "\n".join(lines)


@public
def check_precision(device: object = "auto") -> PrecisionReport:
    """Compare the arithmetic of a device with float64 on the CPU.

    The comparison uses a small built-in problem: a product of matrices in float32,
    which must not be shortened to TF32; the covariances of a network of three hidden
    layers, in float32 and in float64, by the backend that "auto" chooses; and a
    Cholesky factor in float64. All are computed as this package does, which switches
    TF32 off for its own products. A warning says if an error is too large, and if torch
    is set to shorten the products of your own code.

    Parameters
    ----------
    device : str, default="auto"
        "cpu", "cuda", "cuda:1" and the like. "auto" is a GPU if there is one, otherwise
        the CPU.

    Returns
    -------
    report : PrecisionReport
        The errors, their bounds, and `ok`: whether all errors are within the bounds.

    Raises
    ------
    ValueError
        If the device is not on this machine.
    TileMemoryError
        If a GPU that was named has too little free memory.

    See Also
    --------
    show_versions : Prints the versions that are installed.

    Examples
    --------
    >>> from skconvgp import check_precision
    >>> check_precision("cpu")
    cpu, ... backend: error, bound
    float32 matrix product  ...  2.0e-06  ok
    float32 covariances     ...  ok
    float64 covariances     ...  1.0e-11  ok
    float64 Cholesky factor ...  1.0e-11  ok
    >>> check_precision("cpu").ok
    True
    """
    placement = Compute.to("check_precision", device=device).placement()
    report = compute_at(placement, _check)
    if not report.ok:
        warn_caller(
            f"{report.device} is less precise than this package relies on: {report!r}",
            UserWarning,
        )
    as_set = _product_error(torch.device(report.device))
    if as_set > PRODUCT_BOUND and report.errors[PRODUCT] <= PRODUCT_BOUND:
        warn_caller(
            f"torch is set to shorten products in float32 on {report.device}, by TF32 "
            f"or the like: their error is {as_set:.1e}. This package does not follow "
            "that, your own code does: torch.set_float32_matmul_precision('highest') "
            "switches it off.",
            UserWarning,
        )
    return report


def _check(placement: Placement) -> PrecisionReport:
    choice = choose_backend(KERNEL, IMAGE_SHAPE, "auto", placement.device)
    expected = _covariances(ReferenceBackend(KERNEL), CPU, torch.float64)
    return PrecisionReport(
        device=str(placement.device),
        backend=choice.name,
        errors={
            PRODUCT: _product_error(placement.device),
            "float32 covariances": _error(
                choice, placement.device, torch.float32, expected
            ),
            "float64 covariances": _error(
                choice, placement.device, torch.float64, expected
            ),
            "float64 Cholesky factor": _cholesky_error(placement.device, expected),
        },
        bounds={
            PRODUCT: PRODUCT_BOUND,
            "float32 covariances": FLOAT32_BOUNDS[placement.device.type],
            "float64 covariances": FLOAT64_BOUND,
            "float64 Cholesky factor": FLOAT64_BOUND,
        },
    )


def _error(
    choice: BackendChoice, device: torch.device, dtype: torch.dtype, expected: Tensor
) -> float:
    """Return the largest error of a covariance, relative to standard deviations."""
    try:
        got = _covariances(choice.tiles(), device, dtype)
    except ValueError:  # the engine refuses covariances that are no numbers
        return math.nan
    deviations = expected.diagonal().sqrt()
    return _largest((got - expected) / torch.outer(deviations, deviations))


def _covariances(
    backend: TileBackend, device: torch.device, dtype: torch.dtype
) -> Tensor:
    gram = KernelOracle(backend, _images(), ComputeConfig(device, dtype)).gram()
    return gram.to(CPU)


def _images() -> Tensor:
    """Return images, two of them nearly the same and two of opposite sign."""
    images = _waves(N_IMAGES, *IMAGE_SHAPE)
    images[1] = images[0] + 1e-3 * images[2]
    images[3] = -images[2]
    return images.to(torch.float32).to(torch.float64)  # exact in both precisions


def _waves(*shape: int) -> Tensor:
    """Return irregular numbers in [-1, 1]."""
    index = torch.arange(math.prod(shape), dtype=torch.float64, device="cpu")
    return torch.sin(index**2).reshape(shape)


def _product_error(device: torch.device) -> float:
    """Return the largest error of a product, relative to the lengths of its vectors."""
    one, two = _waves(2, SIDE, SIDE).to(torch.float32)
    got = _product(one.to(device), two.to(device)).to(CPU, torch.float64)
    rows, cols = one.to(torch.float64), two.to(torch.float64)
    return _largest(
        (got - rows @ cols) / torch.outer(rows.norm(dim=1), cols.norm(dim=0))
    )


def _product(one: Tensor, two: Tensor) -> Tensor:
    return one @ two


def _cholesky_error(device: torch.device, gram: Tensor) -> float:
    """Return the residual of a factor, relative to the diagonal."""
    matrix = gram / gram.diagonal().mean()
    shift = torch.full_like(matrix.diagonal(), NOISE)
    try:
        factor, _ = shifted_cholesky_(matrix.to(device, copy=True), shift.to(device))
    except NotPSDError:
        return math.inf
    factor = factor.to(CPU)
    wanted = matrix + torch.diag(shift)
    return _largest((factor @ factor.mT - wanted) / wanted.diagonal().max())


def _largest(errors: Tensor) -> float:
    """Return the largest absolute error; NaN if one is NaN."""
    return float(errors.abs().max())
