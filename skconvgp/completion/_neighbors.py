"""NearestNeighbors: each sample is predicted from its nearest training samples."""

from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp._parts import Part
from skconvgp._settings import is_int, require

__all__ = ["NearestNeighbors"]

METRICS = ("cosine", "euclidean")


@dataclass(repr=False)
class NearestNeighbors(Part):
    r"""An exact Gaussian process for each sample, on its nearest training samples.

    A new sample is predicted from its k nearest neighbours :math:`N` among the
    training samples,

    .. math:: \mu = K_{*N} (K_{NN} + \Lambda_N)^{-1} y_N, \quad
              \sigma^2 = K_{**} - K_{*N} (K_{NN} + \Lambda_N)^{-1} K_{N*},

    with :math:`k (k + 1) / 2` evaluations of the kernel, in addition to prior
    variances. There is no Gram matrix: a fit evaluates the kernel only to choose
    settings and to calibrate on left-out samples, at most 300 of them. If k is at least
    the number of samples, the means are those of the exact Gaussian process, and for a
    given amplitude also the variances.

    Parameters
    ----------
    n_neighbors : int, default=100
        Number of neighbours k; all training samples if there are fewer.
    metric : {"cosine", "euclidean"}, default="cosine"
        Measure of nearness between the samples themselves; the kernel is not used.
        "cosine", the angle, suits networks; "euclidean", the distance, suits kernels of
        the distance such as :class:`~skconvgp.kernels.rbf`. With a precomputed kernel
        the metric is not used: neighbours are the samples with the largest absolute
        correlations.

    Raises
    ------
    ValueError
        In `fit`, for settings out of range, ``noise_variance="evidence"`` or a solver.
        Also if covariances or draws are asked for: each sample has a separate
        posterior, and there is no joint posterior.

    See Also
    --------
    sklearn.neighbors.NearestNeighbors : Only the search for neighbours.

    Notes
    -----
    This is the nearest-neighbour or Vecchia approximation with the new sample ordered
    after all others, a valid Gaussian process. ``log_marginal_likelihood()`` is its
    evidence: the sum of the log densities of the training samples, each given its k
    nearest among the samples before it in the order of the data. It is computed on
    request, like ``loo_predict()``; each takes n solves of k samples. A fitted
    estimator keeps only the samples.

    ``amplitude="profile"`` and ``noise_variance="loo"`` use samples that are predicted
    from their neighbours, at most 300, drawn with the `random_state` of the estimator:
    the amplitude is the mean of squared errors, each divided by its variance for
    amplitude 1, and the noise has the largest log density. `observed_fraction` of the
    estimator is not used.

    A sample of weight 2 counts as one neighbour, and two equal samples count as two:
    weights and repetitions have the same effect only if all samples are neighbours.

    References
    ----------
    Vecchia, "Estimation and model identification for continuous spatial processes",
    1988. Gramacy and Apley, "Local Gaussian process approximation for large computer
    experiments", 2015. Datta, Banerjee, Finley and Gelfand, "Hierarchical
    nearest-neighbor Gaussian process models for large geostatistical datasets", 2016.
    Katzfuss and Guinness, "A general framework for Vecchia approximations of Gaussian
    processes", 2021.

    Examples
    --------
    >>> from skconvgp import ConvNetGPClassifier
    >>> from skconvgp.completion import NearestNeighbors
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.kernels import convnet
    >>> X, y = load_digits_images(return_X_y=True)
    >>> kernel = convnet(depth=2, kernel_size=3)
    >>> gp = ConvNetGPClassifier(kernel, completion=NearestNeighbors(30))
    >>> gp.fit(X[:200], y[:200]).score(X[200:300], y[200:300]) > 0.85
    True
    """

    n_neighbors: int = 100
    metric: str = "cosine"

    def count(self, n: int) -> int:
        """Return the number of neighbours that a sample of n is predicted from.

        Parameters
        ----------
        n : int
            Number of samples.

        Returns
        -------
        n_neighbors : int
            At most n.
        """
        require(self, "n_neighbors", is_int(self.n_neighbors), "an int >= 1")
        is_metric = isinstance(self.metric, str) and self.metric in METRICS
        require(self, "metric", is_metric, "'cosine' or 'euclidean'")
        return min(int(self.n_neighbors), n)

    def similarities(self, new: Tensor, points: Tensor) -> Tensor:
        """Return similarities of new points to others, up to a constant in each row.

        Parameters
        ----------
        new : Tensor of shape (n1, d)
            New points.
        points : Tensor of shape (n, d)
            The others.

        Returns
        -------
        similarities : Tensor of shape (n1, n)
            Larger is nearer.
        """
        squares = torch.einsum("ij,ij->i", points, points)
        products = new @ points.mT
        if self.metric == "euclidean":
            return products.sub_(squares / 2.0)
        smallest = torch.finfo(points.dtype).tiny
        return products.mul_(squares.clamp(min=smallest).rsqrt())
