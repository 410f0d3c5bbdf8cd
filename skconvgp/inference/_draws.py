"""Draws from a posterior by draws from the prior."""

from collections.abc import Callable

from torch import Generator, Tensor

from skconvgp._tensors import normals
from skconvgp.linalg import cholesky_product, half_solve, symmetric_eigen

__all__ = ["bootstrap_directions", "pathwise_coefficients"]


def bootstrap_directions(
    factor: Tensor, jitter: float, n_draws: int, generator: Generator
) -> Tensor:
    r"""Return draws L^T (w - mean) of a bootstrap of coefficients w of features.

    A draw solves the regression on targets with further noise, pulled to a draw from
    the prior:

    .. math:: w = A^{-1} \left( F^\top D^{-1} (y + \varepsilon) + \tilde w \right),
              \quad A = L L^\top = I + F^\top D^{-1} F, \quad
              \varepsilon \sim N(0, D), \quad \tilde w \sim N(0, I).

    The training samples are not needed: :math:`F^\top D^{-1} \varepsilon` has the
    covariance :math:`F^\top D^{-1} F = A - I`, and is drawn from it. As the model is
    linear, draws have exactly the distribution of the posterior.

    L is (r, r), and the jitter is the number that was added to the diagonal of A. The
    draws are (r, n_draws): the change of a function is F L^-T times a column.

    References
    ----------
    Kozyrskiy, PhD thesis, 2023, section 4.3.3.
    """
    moment = cholesky_product(factor)
    moment.diagonal().sub_(1.0 + jitter)
    values, vectors = symmetric_eigen(moment)
    size = len(factor), n_draws
    noise, prior = (normals(size, generator).to(factor) for _ in range(2))
    from_noise = vectors @ (values.clamp(min=0.0).sqrt()[:, None] * noise)
    return half_solve(factor, from_noise + prior)


def pathwise_coefficients(
    solve: Callable[[Tensor], Tensor],
    prior_draws: Tensor,
    noise: Tensor,
    generator: Generator,
) -> Tensor:
    r"""Return M^-1 (f + eps) of draws f from the prior, with noise eps.

    With mean :math:`\mu`, a draw from the posterior at any new samples is

    .. math:: \mu(x_*) + f(x_*) - K_{*X} M^{-1} (f(X) + \varepsilon)

    `solve` returns M^-1 times columns (n, s). The draws f (n, s) are at the training
    samples, whose noise variances are (n,). The result is the dual coefficients (n, s)
    of the function that is subtracted from each draw.

    References
    ----------
    Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth, "Efficiently sampling
    functions from Gaussian process posteriors", 2020, equation 13.
    """
    size = prior_draws.shape
    draws = normals(size, generator)
    return solve(prior_draws + draws.to(prior_draws) * noise.sqrt()[:, None])
