"""Weights of a mixture of predictions."""

import torch
from torch import Tensor

from skconvgp.linalg import cholesky_solve, plain_cholesky

__all__ = ["stacking_weights"]

GAP = 1e-9  # what the mean log loss may be above its least value
MOST_NEWTON_STEPS = 100  # for one barrier
DECREMENT = 1e-10  # squared Newton decrement, as a share of the barrier
SMALLEST = 1e-7  # weights below are none


def stacking_weights(probabilities: Tensor, weights: Tensor) -> Tensor:
    r"""Return the weights of models (m,) that minimise the log loss of their mixture.

    .. math:: \min_v - \sum_i w_i \log \sum_j v_j p_{ij}, \qquad v \ge 0, \;
              \sum_j v_j = 1,

    which is convex. As the optimum of the same with :math:`+ \sum_i w_i \sum_j v_j` in
    the place of the constraint obeys it, Newton's method with a logarithmic barrier
    does; at the minimum for a barrier of size b, the loss is at most m b above the
    least one.

    Parameters
    ----------
    probabilities : Tensor of shape (n, m)
        Probability or density that each model gives to each observation.
    weights : Tensor of shape (n,)
        Sample weights, > 0.

    References
    ----------
    Kim, Carbonetto, Stephens and Anitescu, "A fast algorithm for maximum likelihood
    estimation of mixture proportions using sequential quadratic programming", 2020,
    section 2 (the problem without its constraint).
    """
    p = probabilities.to(torch.float64)
    tiny = torch.finfo(p.dtype).tiny
    p = p.clamp(min=tiny)  # of an observation that no model expects
    p = p / p.amax(1, keepdim=True)
    shares = weights.to(p) / weights.sum()
    m = p.shape[1]
    v = torch.full((m,), 1.0 / m, dtype=p.dtype)
    barrier = 1.0 / m
    while barrier > GAP / m:
        barrier = max(barrier / 10.0, GAP / m)
        v = _central(p, shares, v, barrier)
    v[v < SMALLEST] = 0.0
    return v / v.sum()


def _central(p: Tensor, shares: Tensor, v: Tensor, barrier: float) -> Tensor:
    """Return where the loss with a barrier is least, from a place inside."""

    def value(v: Tensor) -> Tensor:
        return v.sum() - shares @ (p @ v).log() - barrier * v.log().sum()

    for _ in range(MOST_NEWTON_STEPS):
        ratios = p / (p @ v)[:, None]
        # In units of v, in which the barrier is round.
        slope = v * (1.0 - shares @ ratios) - barrier
        scaled = ratios * (shares.sqrt()[:, None] * v)
        curvature = scaled.mT @ scaled
        curvature.diagonal().add_(barrier)
        factor = plain_cholesky(curvature)
        assert factor is not None  # the barrier is far above rounding
        step = -cholesky_solve(factor, slope[:, None])[:, 0]
        decrement = -float(slope @ step)
        if decrement <= DECREMENT * barrier:
            break
        length = min(1.0, 0.99 / max(-float(step.min()), 0.99))
        before = value(v)
        while length > DECREMENT and not (
            value(v * (1.0 + length * step)) <= before - 0.1 * length * decrement
        ):
            length /= 2.0
        v = v * (1.0 + length * step)
    return v
