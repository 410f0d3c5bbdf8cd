"""Rho: how well a kernel predicts a batch from a part of it."""

import math
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor

from skconvgp._parts import Part
from skconvgp._protocols import Score
from skconvgp._settings import FIXED, as_bounds, is_number, one_of, require
from skconvgp._typing import Bounds
from skconvgp.flows._scores import KINDS, Derived, System, rho_by_size

# Kinds that judge predictions, so that the nugget can be learned, too. The others
# compare norms of functions that pass through the targets.
WITH_NOISE = ("held_out", "l2", "evidence", "loo_nlpd")


@dataclass(repr=False)
class Rho(Part):
    r"""Share of a batch that a kernel does not predict from a part of it.

    A batch :math:`f` of samples contains a part :math:`s`. With one nugget
    :math:`\lambda` in all systems, :math:`M = K + \lambda \bar d I`,

    .. math:: \rho_{l2} = \frac{\|Y_f - K_{fs} M_{ss}^{-1} Y_s\|^2}{\|Y_f\|^2},
              \qquad
              \rho = 1 - \frac{\langle Y_s, M_{ss}^{-1} Y_s \rangle}
              {\langle Y_f, M_{ff}^{-1} Y_f \rangle} \in [0, 1]:

    the share of the squared targets of the batch that the part does not predict, and
    the share of their squared RKHS norm that the other samples add. Both follow from
    one Cholesky factorisation with the part first, so that the second is in [0, 1] even
    in floating point.

    Parameters
    ----------
    kind : str, default="l2"
        Objective that is minimised: "l2" or "ratio", above; "held_out", as "l2" but
        only of the samples outside of the part; "loo", the mean of the ratio over all
        parts that leave out one sample; "evidence" and "loo_nlpd", negative log
        marginal likelihood and leave-one-out log predictive density for each target,
        amplitude profiled out, for comparison with the field's usual choices;
        "polarised", the squared norm of the difference of both interpolants, which may
        exceed 1. "algorithm4", for reproduction only: it divides a Euclidean norm by an
        RKHS norm, so that a larger amplitude lowers it without bound.
    sample_fraction : float, default=0.5
        Size of the part :math:`s`, as a share of the batch. "loo", "evidence" and
        "loo_nlpd" use the whole batch.
    noise_variance : float, default=1e-4
        Nugget, as a share of the mean prior variance :math:`\bar d` of the batch.
    noise_variance_bounds : tuple of float or "fixed", default="fixed"
        Bounds of the nugget if it is learned with the kernel.

    Raises
    ------
    ValueError
        On use, for a wrong setting or a batch that is too small.
    NotPSDError
        In `score`, for a matrix that is not positive definite with the nugget.

    See Also
    --------
    rho_path : The ratio for parts of all sizes.

    Notes
    -----
    "ratio", "loo" and "polarised" compare norms of functions that pass through the
    targets. They are for targets without noise. If the noise exceeds the nugget (labels
    of classes count as noisy), a good kernel has to bend towards every target, and gets
    a larger ratio than a kernel that explains nothing. All kinds but "algorithm4" are
    the same for a kernel and its multiples: the factor of ``2.0 * kernel`` cannot be
    learned. If the value stays near ``1 - sample_fraction``, the nugget explains all.

    References
    ----------
    Owhadi and Yoo, "Kernel flows: from learning kernels from data into the abyss",
    2019, section 2; Bin Khalid, 2022, chapter 3 and, for "algorithm4", chapter 5;
    Rasmussen and Williams, "Gaussian processes for machine learning", 2006, equations
    5.8 and 5.10 to 5.12.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skconvgp import gram_matrix
    >>> from skconvgp.flows import Rho
    >>> from skconvgp.kernels import rbf
    >>> x = np.linspace(0.0, 3.0, 20)[::-1, None]
    >>> y = torch.from_numpy(np.sin(2.0 * x))
    >>> for lengthscale in (0.01, 1.0):
    ...     gram = torch.from_numpy(gram_matrix(rbf(lengthscale=lengthscale), x))
    ...     print(round(Rho().score(gram, y).value, 3))
    0.5
    0.142
    """

    kind: str = "l2"
    sample_fraction: float = 0.5
    noise_variance: float = 1e-4
    noise_variance_bounds: Bounds = FIXED

    def count(self, n: int) -> int:
        """Return the size of the sample in a batch.

        Parameters
        ----------
        n : int
            Samples in the batch, 2 or more.

        Returns
        -------
        n_sample : int
            From 1 to n - 1.
        """
        self._check_settings()
        if n < 2:
            raise ValueError(f"A batch must have two samples or more, got {n}.")
        return min(max(round(self.sample_fraction * n), 1), n - 1)

    def score(
        self, gram: Tensor, targets: Tensor, noise_variance: float | None = None
    ) -> Score:
        """Return the value for a batch whose sample comes first, with derivatives.

        Parameters
        ----------
        gram : Tensor of shape (n, n)
            Gram matrix of the batch, in float64.
        targets : Tensor of shape (n, k)
            Targets; norms are summed over the columns.
        noise_variance : float, default=None
            Nugget; None takes the objective's own.

        Returns
        -------
        score : Score
            The value and its derivatives.
        """
        n_sample = self.count(len(gram))
        noise = self.noise_variance if noise_variance is None else noise_variance
        system = _system(gram, targets, noise, n_sample)
        derived = KINDS[self.kind](system)
        return Score(
            float(derived.value),
            _by_gram(system, derived),
            noise * float(derived.by_system.diagonal().sum()),
        )

    def _check_settings(self) -> None:
        kind, share = self.kind, self.sample_fraction
        is_known = isinstance(kind, str) and kind in KINDS
        require(self, "kind", is_known, one_of(KINDS))
        is_share = isinstance(share, Real) and 0.0 < share < 1.0
        require(self, "sample_fraction", is_share, "a number > 0 and < 1")
        is_noise = is_number(self.noise_variance) or self.noise_variance == 0.0
        require(self, "noise_variance", is_noise, "a finite number >= 0")
        bounds = as_bounds(self.noise_variance_bounds)
        if not isinstance(bounds, str):
            is_within = bounds[0] <= self.noise_variance <= bounds[1]
            require(self, "noise_variance", is_within, f"within its bounds, {bounds}")


def rho_path(gram: Tensor, targets: Tensor, noise_variance: float = 1e-4) -> Tensor:
    r"""Return the ratio of :class:`Rho` for parts of all sizes.

    One Cholesky factorisation serves all of them.

    Parameters
    ----------
    gram : Tensor of shape (n, n)
        Gram matrix of a batch, in float64.
    targets : Tensor of shape (n, k)
        Targets.
    noise_variance : float, default=1e-4
        Nugget, as a share of the mean prior variance.

    Returns
    -------
    rho : Tensor of shape (n - 1,)
        The ratio for parts of the first 1 to n - 1 samples; it does not increase.

    Raises
    ------
    NotPSDError
        If the matrix is not positive definite with the nugget.

    References
    ----------
    Owhadi and Yoo, "Kernel flows: from learning kernels from data into the abyss",
    2019, section 2.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.flows import rho_path
    >>> rho_path(torch.eye(4, dtype=torch.float64), torch.ones(4, 1))
    tensor([0.7500, 0.5000, 0.2500], dtype=torch.float64)
    """
    return rho_by_size(_system(gram, targets, noise_variance, n_sample=1))


def _system(gram: Tensor, targets: Tensor, noise: float, n_sample: int) -> System:
    """Return the system of a batch, its matrix scaled to mean diagonal 1."""
    scale = float(gram.diagonal().mean())
    if not (math.isfinite(scale) and scale > 0.0):
        scale = math.nan  # the factorisation of NaN raises an error
    scaled = gram.to(torch.float64) / scale
    return System(scaled, targets.to(scaled), float(noise), n_sample, scale)


def _by_gram(system: System, derived: Derived) -> Tensor:
    """Return the derivatives by K before it was divided by its mean diagonal."""
    by_unit = derived.by_system
    if derived.by_gram is not None:
        by_unit = by_unit + derived.by_gram
    by_unit = (by_unit + by_unit.mT) / 2.0
    # Each diagonal entry of K also changes the mean diagonal, K's divisor.
    by_scale = derived.by_scale - float((by_unit * system.gram).sum())
    by_unit.diagonal().add_(by_scale / len(by_unit))
    return by_unit / system.scale
