"""Stacking: weights of a mixture of predictive distributions."""

import torch
from torch import Tensor

from skconvgp.linalg import cholesky_solve, plain_cholesky

__all__ = ["stacking_weights"]

GAP = 1e-9  # largest difference of the mean log loss from its minimum
MOST_NEWTON_STEPS = 100  # for one barrier
DECREMENT = 1e-10  # squared Newton decrement to stop at, as a share of the barrier
SMALLEST = 1e-7  # smaller weights are set to 0


def stacking_weights(probabilities: Tensor, weights: Tensor) -> Tensor:
    r"""Return the weights of models (m,) that minimise the log loss of their mixture.

    .. math:: \min_v - \sum_i w_i \log \sum_j v_j p_{ij}, \qquad v \ge 0, \;
              \sum_j v_j = 1,

    which is convex. If the term :math:`+ \sum_i w_i \sum_j v_j` replaces the last
    constraint, the optimum still satisfies it. Only :math:`v \ge 0` remains, which a
    logarithmic barrier keeps in Newton's method. At the minimum for a barrier of size
    b, the loss exceeds its minimum by at most m b.

    `probabilities` (n, m) holds the probability or density p that each model gives to
    each observation. The sample weights w (n,) are > 0.

    References
    ----------
    Kim, Carbonetto, Stephens and Anitescu, "A fast algorithm for maximum likelihood
    estimation of mixture proportions using sequential quadratic programming", 2020,
    section 2 (the problem without its constraint).
    """
    p = probabilities.to(torch.float64)
    tiny = torch.finfo(p.dtype).tiny
    # Keeps the logarithm finite for an observation that no model expects.
    p = p.clamp(min=tiny)
    p = p / p.amax(1, keepdim=True)
    shares = weights.to(p) / weights.sum()
    m = p.shape[1]
    v = p.new_full((m,), 1.0 / m)
    barrier = 1.0 / m
    while barrier > GAP / m:
        barrier = max(barrier / 10.0, GAP / m)
        v = _central(p, shares, v, barrier)
    v[v < SMALLEST] = 0.0
    return v / v.sum()


def _central(p: Tensor, shares: Tensor, v: Tensor, barrier: float) -> Tensor:
    """Return the weights that minimise the loss with a barrier, from interior ones."""

    def value(v: Tensor) -> Tensor:
        return v.sum() - shares @ (p @ v).log() - barrier * v.log().sum()

    for _ in range(MOST_NEWTON_STEPS):
        ratios = p / (p @ v)[:, None]
        # Relative to v, the Hessian of the barrier is a multiple of the identity.
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
