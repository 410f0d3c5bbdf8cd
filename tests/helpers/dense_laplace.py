"""Laplace approximation in dense matrices of all latents."""

from dataclasses import dataclass

import torch
from torch.autograd.functional import hessian, jacobian

LOG_LIKELIHOODS = {
    "softmax": lambda f, codes: torch.distributions.Categorical(logits=f).log_prob(
        codes
    ),
    "logit": lambda f, codes: -torch.nn.functional.softplus((1 - 2 * codes) * f[:, 0]),
    "probit": lambda f, codes: torch.special.log_ndtr((2 * codes - 1) * f[:, 0]),
}


@dataclass
class DenseLaplace:
    """Mode (n, k), evidence, and posterior precision of the labels (n k, n k)."""

    mode: torch.Tensor
    evidence: float
    precision: torch.Tensor
    n_latents: int

    def mean(self, gram, cross):
        """Return means (b, k) at new samples, from covariances (n, b)."""
        return cross.mT @ torch.linalg.solve(gram, self.mode)

    def left_out(self, gram, i):
        """Return mean (k,) and covariance (k, k) of sample i without its label.

        The Gaussians that stand for the other labels stay as they are.
        """
        eye = torch.eye(self.n_latents).double()
        own = slice(i * self.n_latents, (i + 1) * self.n_latents)
        told = self.precision @ self.mode.flatten()
        told += torch.linalg.solve(gram, self.mode).flatten()
        precision = self.precision.clone()
        precision[own] = precision[:, own] = told[own] = 0.0
        whole = torch.kron(gram, eye)
        gains = whole[own] @ torch.linalg.inv(
            torch.eye(len(whole)).double() + precision @ whole
        )
        return gains @ told, whole[own, own] - gains @ precision @ whole[:, own]

    def covariance(self, gram, cross, prior):
        """Return the covariance (b, k, b, k) of all latents of new samples."""
        eye = torch.eye(self.n_latents).double()
        gram, cross, prior = (torch.kron(part, eye) for part in (gram, cross, prior))
        inverse = torch.linalg.inv(torch.eye(len(gram)) + self.precision @ gram)
        cov = prior - cross.mT @ inverse @ self.precision @ cross
        b = len(prior) // self.n_latents
        return cov.reshape(b, self.n_latents, b, self.n_latents)


def dense_laplace(gram, codes, n_latents, link, n_iter=200):
    """Return the approximation for a prior covariance (n, n) of each latent function.

    Latents are stacked with those of a sample beside each other. Newton steps are
    halved until the posterior density rises.
    """
    n = len(gram)
    gram = torch.kron(gram, torch.eye(n_latents).double())

    def log_likelihood(f):
        return LOG_LIKELIHOODS[link](f.reshape(n, n_latents), codes).sum()

    def objective(dual):
        f = gram @ dual
        return float(log_likelihood(f) - dual @ f / 2)

    dual = torch.zeros(len(gram)).double()
    for _ in range(n_iter):
        f = gram @ dual
        precision = -hessian(log_likelihood, f)
        wanted = precision @ f + jacobian(log_likelihood, f)
        new = torch.linalg.solve(torch.eye(len(gram)) + precision @ gram, wanted)
        while objective(new) < objective(dual) - 1e-12:
            new = (new + dual) / 2
        if torch.allclose(new, dual, rtol=1e-13, atol=1e-15):
            break
        dual = new
    precision = -hessian(log_likelihood, gram @ dual)
    logdet = torch.linalg.slogdet(torch.eye(len(gram)) + precision @ gram)[1]
    evidence = objective(dual) - float(logdet) / 2
    return DenseLaplace(
        (gram @ dual).reshape(n, n_latents), evidence, precision, n_latents
    )
