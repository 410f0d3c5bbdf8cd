"""Baselines: exact Gaussian processes of fewer samples, or of smaller images."""

import copy
import math
from dataclasses import dataclass
from typing import Any

from torch import Generator, Tensor

from skconvgp._parts import Part
from skconvgp._protocols import Completion, GramOracle
from skconvgp._settings import is_int, is_number, reject
from skconvgp.completion._budget import entry_budget, too_few
from skconvgp.completion._landmarks import (
    WITHOUT_COLUMNS,
    check_capability,
    choose_samples,
)

__all__ = ["CoarseKernel", "SubsetOfData"]

FEWEST = 2  # smallest size of a subset


@dataclass(repr=False)
class SubsetOfData(Part):
    r"""Exact Gaussian process of a subset of the samples.

    The subset is the largest whose Gram matrix has no more distinct entries than may be
    evaluated, :math:`m (m + 1) / 2 \le p \, n (n + 1) / 2`. Samples of equal inputs
    count as one, and are used together. No entry is completed, and the other samples
    are not used. A completion should predict better than this baseline at equal cost.

    Parameters
    ----------
    n_samples : int, default=None
        Number of samples with different inputs; None for as many as `observed_fraction`
        allows.
    selection : str, default="uniform"
        How samples are chosen: "uniform"; "stratified", equally many of each class;
        "kmeans", samples near the centres of clusters by correlation.

    Raises
    ------
    CompletionError
        In `count`, if `observed_fraction` is too small for two samples; in `select`, if
        the selection needs labels or points that the oracle does not have.

    See Also
    --------
    Nystrom : Uses all samples, through their covariances with landmarks.

    References
    ----------
    Rasmussen and Williams, "Gaussian processes for machine learning", 2006, section
    8.3.3; Meinel, 2020, whose first pattern of observations is the leading block of the
    matrix.

    Examples
    --------
    >>> from skconvgp import ConvNetGPRegressor
    >>> from skconvgp.completion import SubsetOfData
    >>> from skconvgp.kernels import rbf
    >>> X = [[0.1 * i] for i in range(40)]
    >>> gp = ConvNetGPRegressor(
    ...     rbf(1.0), completion=SubsetOfData(), observed_fraction=0.1
    ... )
    >>> len(gp.fit(X, X).X_train_)
    12
    """

    n_samples: int | None = None
    selection: str = "uniform"

    def count(self, n: int, observed_fraction: float) -> int:
        """Return how many of n samples are selected.

        Parameters
        ----------
        n : int
            Number of samples.
        observed_fraction : float
            Share of the n (n + 1) / 2 distinct entries that may be evaluated; used if
            `n_samples` is None.

        Returns
        -------
        m : int
            From 2, or n if that is less, to n.
        """
        self._check_settings()
        budget = entry_budget(observed_fraction, n)
        if self.n_samples is not None:
            return min(self.n_samples, n)
        m = (math.isqrt(8 * budget + 1) - 1) // 2  # m (m + 1) <= 2 budget
        fewest = min(FEWEST, n)
        if m < fewest:
            needed = fewest * (fewest + 1) // 2
            least_part = f"the matrix of {fewest} samples"
            raise too_few(observed_fraction, n, least_part, needed, "set `n_samples`")
        return m

    def select(
        self, oracle: GramOracle, observed_fraction: float, generator: Generator
    ) -> Tensor:
        """Return the indices (m,) of different samples.

        Parameters
        ----------
        oracle : GramOracle
            Provides labels or points of the samples; no entry is evaluated.
        observed_fraction : float
            As in `count`.
        generator : torch.Generator
            Source of randomness.

        Returns
        -------
        indices : Tensor of shape (m,)
            The samples, in order of choice.
        """
        m = self.count(oracle.n_samples, observed_fraction)
        check_capability(type(self).__name__, self.selection, oracle, "selection")
        return choose_samples(self.selection, oracle, m, generator)

    def _check_settings(self) -> None:
        if self.n_samples is not None and not is_int(self.n_samples, FEWEST):
            reject(self, "n_samples", f"None or an int >= {FEWEST}", self.n_samples)
        if self.selection not in list(WITHOUT_COLUMNS):
            expected = f"one of {list(WITHOUT_COLUMNS)!r}"
            reject(self, "selection", expected, self.selection)


@dataclass(repr=False)
class CoarseKernel(Part):
    r"""Exact Gaussian process of a cheaper network on smaller images.

    Squares of pixels are averaged (smaller ones at the edges), and a network with fewer
    layers or smaller windows is applied to the result. All entries of its Gram matrix
    are evaluated. With `exact`, the covariance is the sum of this kernel and of the
    exact kernel, whose matrix is completed from a share `observed_fraction` of its
    entries,

    .. math:: (1 - v) \frac{\bar d}{\bar d_c} K_c + v F F^\top, \qquad
              F F^\top \approx K,

    with the mean prior variances :math:`\bar d, \bar d_c`. Without `exact`, the
    fraction is not used.

    Parameters
    ----------
    pool : int, default=2
        Side of the squares of pixels that are averaged.
    depth : int, default=5
        Setting of the cheaper network; None keeps the setting of the kernel.
    kernel_size : int, default=3
        Setting of the cheaper network; None keeps the setting of the kernel.
    kernel : Kernel, default=None
        The cheaper kernel itself; `depth` and `kernel_size` are then not used. None
        for the kernel of the estimator with these settings.
    exact : Completion, default=None
        Completes the matrix of the kernel of the estimator; None for the cheaper
        kernel alone.
    exact_weight : float, default=0.5
        Share :math:`v` of the mean prior variance that the exact kernel has in the
        sum, between 0 and 1.

    Raises
    ------
    ValueError
        In `coarsen`, if the kernel has no setting `depth` or `kernel_size` to change.

    See Also
    --------
    SubsetOfData : The exact kernel on a subset of the samples.

    Notes
    -----
    The amplitude of covariances differs from that of the kernel; estimators profile it
    out. For a sum the Gram matrix is held, and predictions use all samples and the
    anchors of the completion; standard deviations include the variance that its
    features leave out. `kernel_` is then the cheaper kernel, and `dual_coef_`
    multiplies covariances of the sum.

    References
    ----------
    Kennedy and O'Hagan, "Predicting the output from a complex computer code when fast
    approximations are available", 2000, for models of several fidelities.

    Examples
    --------
    >>> from skconvgp import ConvNetGPClassifier
    >>> from skconvgp.completion import CoarseKernel
    >>> from skconvgp.datasets import load_digits_images
    >>> X, y = load_digits_images(return_X_y=True)
    >>> gp = ConvNetGPClassifier(completion=CoarseKernel()).fit(X[:200], y[:200])
    >>> gp.kernel_
    convnet(depth=5, kernel_size=3)
    """

    pool: int = 2
    depth: int | None = 5
    kernel_size: int | None = 3
    kernel: Any = None
    exact: Any = None
    exact_weight: float = 0.5

    def coarsen(self, kernel: Any) -> Any:
        """Return the kernel of smaller images.

        Parameters
        ----------
        kernel : Kernel
            Kernel of the full images; used if the setting `kernel` is None.

        Returns
        -------
        kernel : Kernel
            A copy.
        """
        self._check_settings()
        if self.kernel is not None:
            return copy.deepcopy(self.kernel)
        given = {"depth": self.depth, "kernel_size": self.kernel_size}
        changed = {name: value for name, value in given.items() if value is not None}
        missing = sorted(changed.keys() - kernel.get_params(deep=False).keys())
        if missing:
            raise ValueError(
                f"{type(kernel).__name__} has no setting {missing[0]!r} that "
                f"{self!r} could change: pass a cheaper network as `kernel=`, or "
                "depth=None, kernel_size=None to keep its settings."
            )
        return kernel.replace(**changed)

    def _check_settings(self) -> None:
        if self.exact is not None and not _is_completion(self.exact):
            expected = "None or a completion, such as Nystrom()"
            reject(self, "exact", expected, self.exact)
        if not (is_number(self.exact_weight) and self.exact_weight < 1.0):
            reject(self, "exact_weight", "a number > 0 and < 1", self.exact_weight)
        if not is_int(self.pool, 1):
            reject(self, "pool", "an int >= 1", self.pool)
        for name in ("depth", "kernel_size"):
            value = getattr(self, name)
            if value is not None and not is_int(value, 1):
                reject(self, name, "None or an int >= 1", value)


def _is_completion(part: object) -> bool:
    return isinstance(part, Completion) and not isinstance(part, type)
