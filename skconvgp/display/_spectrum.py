"""SpectrumDisplay: the eigenvalues of a Gram matrix, and its noise."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigvalsh
from sklearn.utils.validation import check_is_fitted

from skconvgp._typing import FloatArray
from skconvgp.display._pyplot import pyplot_for
from skconvgp.engine import host_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SpectrumDisplay"]

WIDTH, HEIGHT = 5.0, 3.6  # inches
ROUNDING = 1e-12  # eigenvalues below this share of the largest are rounding errors


class SpectrumDisplay:
    """Eigenvalues of a Gram matrix in decreasing order, and the noise.

    Make it with :meth:`from_estimator` or :meth:`from_gram`. The matrix is divided by
    its mean diagonal, so that eigenvalues have the units of ``noise_variance``.
    Directions with eigenvalues far below the noise cannot be learned, and may be left
    out. The number of eigenvalues above the noise is about the rank that a completion,
    or the preconditioner of ``solver="cg"``, needs.

    Parameters
    ----------
    eigenvalues : array-like of shape (n,)
        Eigenvalues of the matrix divided by its mean diagonal, in any order.
    noise_variance : float, default=None
        Noise variance relative to the mean prior variance; None draws no noise.
    name : str, default=None
        Name of the matrix, in the legend.

    Attributes
    ----------
    eigenvalues : ndarray of shape (n,)
        The eigenvalues, the largest first.
    line_ : matplotlib.lines.Line2D
        Line of the eigenvalues, after :meth:`plot`.
    ax_ : matplotlib.axes.Axes
        The axes.
    figure_ : matplotlib.figure.Figure
        The figure.

    See Also
    --------
    CompletionErrorDisplay : Errors and scores of completions of a matrix.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import numpy as np
    >>> from skconvgp import ConvNetGPRegressor
    >>> from skconvgp.display import SpectrumDisplay
    >>> from skconvgp.kernels import rbf
    >>> X = np.linspace(0.0, 6.0, 100)[:, None]
    >>> gp = ConvNetGPRegressor(rbf(1.0), noise_variance=1e-2).fit(X, np.sin(X[:, 0]))
    >>> display = SpectrumDisplay.from_estimator(gp, X)
    >>> f"{display.effective_dimension:.1f} of {len(display.eigenvalues)}"
    '9.5 of 100'
    """

    def __init__(
        self,
        eigenvalues: ArrayLike,
        *,
        noise_variance: float | None = None,
        name: str | None = None,
    ) -> None:
        values = host_numbers(eigenvalues, "eigenvalues")
        if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
            raise ValueError(
                "`eigenvalues` must be a non-empty array (n,) of finite numbers, got "
                f"shape {values.shape}."
            )
        self.eigenvalues = np.sort(values)[::-1]
        self.noise_variance = noise_variance
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        *,
        name: str | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw the eigenvalues of the prior of a fitted process on samples.

        If the completion of the process pools images or adds kernels, the prior is the
        one after that.

        Parameters
        ----------
        estimator : object
            Fitted process, with ``kernel_`` and ``noise_variance_``.
        X : array-like
            Samples, a few thousand at most: n samples take the memory of an n x n
            matrix, and time proportional to n ** 3. With ``kernel="precomputed"``, the
            Gram matrix.
        name : str, default=None
            Name in the legend; None is the kernel.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw in; None makes a figure.

        Returns
        -------
        display : SpectrumDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If the noise differs between samples.
        """
        check_is_fitted(estimator)
        noise = estimator.noise_variance_
        if np.ndim(noise):
            raise ValueError(
                "The noise of this process differs between samples; draw the "
                "eigenvalues alone, with SpectrumDisplay.from_gram."
            )
        gram = estimator._gram_of(estimator._read_new(X), "float64")
        return cls.from_gram(
            gram,
            noise_variance=float(noise),
            name=str(estimator.kernel_) if name is None else name,
            ax=ax,
        )

    @classmethod
    def from_gram(
        cls,
        gram: ArrayLike,
        *,
        noise_variance: float | None = None,
        name: str | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw the eigenvalues of a Gram matrix.

        Parameters
        ----------
        gram : array-like of shape (n, n)
            Symmetric matrix with a diagonal above 0.
        noise_variance : float, default=None
            Noise variance relative to the mean diagonal; None draws no noise.
        name : str, default=None
            Name in the legend.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw in; None makes a figure.

        Returns
        -------
        display : SpectrumDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If the matrix is not square, or its mean diagonal is not above 0.
        """
        matrix = host_numbers(gram, "gram")
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
            raise ValueError(
                f"`gram` must be a square matrix, got shape {matrix.shape}."
            )
        mean_diag = float(np.mean(np.diag(matrix)))
        if not mean_diag > 0.0:
            raise ValueError(
                "The mean diagonal of `gram`, its mean prior variance, must be above "
                f"0, got {mean_diag}."
            )
        values = eigvalsh(matrix / mean_diag)
        return cls(values, noise_variance=noise_variance, name=name).plot(ax=ax)

    @property
    def effective_dimension(self) -> float:
        """Number of directions that are learned: sum of eigenvalue / (it + noise).

        Without noise, it is the number of eigenvalues that are drawn.
        """
        values = np.maximum(self.eigenvalues, 0.0)
        if not self.noise_variance:
            return float(len(self._drawn))
        return float((values / (values + self.noise_variance)).sum())

    @property
    def _drawn(self) -> FloatArray:
        is_drawn = self.eigenvalues > ROUNDING * self.eigenvalues[0]
        shown: FloatArray = self.eigenvalues[is_drawn]
        return shown

    def plot(self, *, ax: "Axes | None" = None) -> Self:
        """Draw the eigenvalues and the noise.

        Eigenvalues below 1e-12 of the largest are rounding errors and left out.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw in; None makes a figure.

        Returns
        -------
        display : SpectrumDisplay
            The same object.
        """
        plt = pyplot_for(self)
        if ax is None:
            _, ax = plt.subplots(figsize=(WIDTH, HEIGHT), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        ranks = np.arange(1, len(self._drawn) + 1)
        self.line_ = ax.loglog(ranks, self._drawn, label=self.name)[0]
        if self.noise_variance:
            ax.axhline(
                self.noise_variance,
                color=self.line_.get_color(),
                linestyle="--",
                linewidth=1,
                label=f"noise: {self.effective_dimension:.3g} directions are learned",
            )
        if self.name or self.noise_variance:
            ax.legend(frameon=False, fontsize="small")
        ax.set(xlabel="eigenvalue, the largest first", ylabel="size / mean variance")
        ax.spines[["top", "right"]].set_visible(False)
        return self
