"""The evidence of labels as labels, as a function of a Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from skconvgp._protocols import Score
from skconvgp.exceptions import NotPSDError
from skconvgp.processes._label_models import LinkModel

__all__ = ["AMPLITUDE_LABEL", "LabelEvidence"]

AMPLITUDE_LABEL = "amplitude"
START, BOUNDS = 10.0, (1e-3, 1e7)
# Matrices of the size of the Gram matrix that are held beside those of a fit: it, the
# sum of the blocks of an inverse, and what one of them takes off it, twice.
SCORE_COPIES = 4


@dataclass(frozen=True)
class LabelEvidence:
    """Negative log evidence for each label, by Laplace's approximation.

    The amplitude, the mean prior variance of the latent functions, is learned with the
    kernel. The last mode is kept: that of a kernel nearby is found from there.

    Parameters
    ----------
    model : LinkModel
        The likelihood, with the labels of all samples.
    noise_variance : float
        That of the latent functions, as a share of the mean prior variance.

    References
    ----------
    Rasmussen and Williams, 2006, section 5.5.1.
    """

    model: LinkModel
    noise_variance: float
    _last: list[LinkModel] = field(default_factory=list, init=False, repr=False)

    @property
    def own_parameter(self) -> tuple[str, float, tuple[float, float]]:
        """Name of what is learned with the kernel, its start and its bounds."""
        return AMPLITUDE_LABEL, START, BOUNDS

    def n_copies(self) -> int:
        """Return how many matrices it holds at once."""
        return self.model.n_copies() + SCORE_COPIES

    def count(self, n: int) -> int:
        """Return the size of a sample of n, for which it has no use."""
        return n - 1

    def score(
        self, gram: Tensor, targets: Tensor, own: float | None = None, /
    ) -> Score:
        """Return the value and its derivatives.

        Parameters
        ----------
        gram : Tensor of shape (n, n)
            Gram matrix of a batch.
        targets : Tensor of shape (n, k)
            The code of its labels, less an offset of each class: the largest is that of
            the own class.
        own : float, default=None
            Amplitude in the place of the one to begin with.
        """
        amplitude = START if own is None else own
        scale, n = float(gram.diagonal().mean()), len(gram)
        if not 0.0 < scale < torch.inf:
            raise NotPSDError(f"The mean prior variance is {scale!r} and must be > 0.")
        unit = gram.to(torch.float64) / scale
        nugget = amplitude * self.noise_variance
        model = self._model_of(targets.argmax(dim=1))
        evidence, slopes = model.slopes(unit * amplitude, nugget)
        slopes *= -amplitude / n
        by_unit = float((slopes * unit).sum())
        by_own = by_unit + self.noise_variance * float(slopes.diagonal().sum())
        slopes.diagonal().sub_(by_unit / n)  # K is divided by its mean diagonal
        return Score(-evidence / n, slopes.div_(scale), by_own)

    def _model_of(self, codes: Tensor) -> LinkModel:
        """Return a model of the labels: the last one, whose mode is near, if it is."""
        codes = codes.to("cpu")
        if not (self._last and self._last[0].has_labels(codes)):
            self._last[:] = [self.model.with_labels(codes)]
        return self._last[0]
