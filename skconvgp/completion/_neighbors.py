"""NearestNeighbors: each sample is predicted from its nearest training samples."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from skconvgp._parts import Part
from skconvgp._settings import is_int, one_of, require

__all__ = ["NearestNeighbors"]

METRICS = ("cosine", "euclidean")
UNIFORM = "uniform"
AT_ONCE = 4096  # points that are copied in double precision at a time
NEAREST = 1e-3  # distance below which weights of "hilbert" no longer grow
LEAST_WEIGHT = 1e-9  # of a neighbour as far as the nearest sample beyond all of them
# Weights as functions of r, the distance divided by that of the nearest sample beyond.
WEIGHTS: dict[str, Callable[[Tensor], Tensor]] = {
    "epanechnikov": lambda r: 1.0 - r.square(),
    "gaussian": lambda r: torch.exp(-2.0 * r.square()),
    "hilbert": lambda r: 1.0 / r.clamp(min=NEAREST),
}


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
    the number of samples, the means equal the means of the exact Gaussian process, and
    for a given amplitude also the variances.

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
    weights : {"uniform", "epanechnikov", "gaussian", "hilbert"}, default="uniform"
        How much near neighbours count more than far ones. A neighbour of weight w has
        the noise variance :math:`\sigma^2 / w`, with w a function of
        :math:`r = d_i / d_{k+1} \le 1`, its distance in units of the distance of the
        nearest sample that is no neighbour: :math:`1 - r^2` for "epanechnikov",
        :math:`1 / \max(r, 10^{-3})` for "hilbert", :math:`e^{-2 r^2}` for "gaussian",
        and 1 for "uniform". Distances follow `metric`, and are
        :math:`\sqrt{2 - 2 \cos}` for "cosine".

    Raises
    ------
    ValueError
        In `fit`, for settings out of range, ``noise_variance="evidence"``, a solver, or
        weights other than "uniform" with a precomputed kernel, which has no distances.
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

    With `weights` the mean is the function that minimises
    :math:`\sum_i w_i (y_i - f(x_i))^2 + \sigma^2 \lVert f \rVert^2`, a local
    regression. All choices by left-out samples use the weights. "hilbert" gives a
    neighbour that equals the new sample the weight 1000, so that its target nearly
    decides. With `weights` the evidence takes the first k + 1 samples without weights,
    and each later one given its weighted neighbours.

    References
    ----------
    Vecchia, "Estimation and model identification for continuous spatial processes",
    1988. Gramacy and Apley, "Local Gaussian process approximation for large computer
    experiments", 2015. Datta, Banerjee, Finley and Gelfand, "Hierarchical
    nearest-neighbor Gaussian process models for large geostatistical datasets", 2016.
    Katzfuss and Guinness, "A general framework for Vecchia approximations of Gaussian
    processes", 2021. Weights: Kozyrskiy, 2023, chapter 5; Devroye, Györfi and Krzyżak,
    "The Hilbert kernel regression estimate", 1998.

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
    weights: str = UNIFORM

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
        words = (UNIFORM, *WEIGHTS)
        is_known = isinstance(self.weights, str) and self.weights in words
        require(self, "weights", is_known, one_of(words))
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
        if self.metric == "euclidean":
            return _closeness(new, points)
        squares = torch.einsum("ij,ij->i", points, points)
        products = new @ points.mT
        smallest = torch.finfo(points.dtype).tiny
        return products.mul_(squares.clamp(min=smallest).rsqrt())

    @property
    def is_weighted(self) -> bool:
        """Whether weights differ from 1."""
        return self.weights != UNIFORM

    def distances(self, new: Tensor, near: Tensor) -> Tensor:
        """Return the distances of new points to points near each of them.

        Parameters
        ----------
        new : Tensor of shape (n1, d)
            New points.
        near : Tensor of shape (n1, k, d)
            For each of them, k others.

        Returns
        -------
        distances : Tensor of shape (n1, k)
            In units of the points; of "cosine", between points divided by their norms.
        """
        if self.metric == "cosine":
            new, near = (normalize(one, dim=-1) for one in (new, near))
        gaps = near - new[:, None]
        return torch.einsum("ijk,ijk->ij", gaps, gaps).sqrt_()

    def weigh(self, distances: Tensor) -> Tensor:
        """Return the weights of neighbours.

        Parameters
        ----------
        distances : Tensor of shape (n1, k + 1)
            Distances of the neighbours, then the distance of the nearest sample beyond.

        Returns
        -------
        weights : Tensor of shape (n1, k)
            At least 1e-9; 1 of a sample at distance zero, or 1000 for "hilbert".
        """
        beyond = distances[:, -1:].clamp(min=torch.finfo(distances.dtype).tiny)
        ratios = (distances[:, :-1] / beyond).clamp(max=1.0)
        return WEIGHTS[self.weights](ratios).clamp(min=LEAST_WEIGHT)


def _closeness(new: Tensor, points: Tensor) -> Tensor:
    """Return minus half the squared distances (n1, n), up to a constant in each row.

    Around the mean of the points and in double precision, a small distance is no
    difference of large numbers.
    """
    centre = points.mean(0, dtype=torch.float64)
    from_centre = new.double() - centre
    values = from_centre.new_empty(len(new), len(points))
    for start in range(0, len(points), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        others = points[part].double() - centre
        halves = torch.einsum("ij,ij->i", others, others) / 2.0
        values[:, part] = (from_centre @ others.mT).sub_(halves)
    return values
