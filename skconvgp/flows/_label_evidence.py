"""The evidence of class labels under their likelihood, by Laplace's approximation."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from skconvgp._protocols import Score
from skconvgp.exceptions import NotPSDError
from skconvgp.processes.fits._label_models import LinkModel

AMPLITUDE_LABEL = "amplitude"
START, BOUNDS = 10.0, (1e-3, 1e7)  # of the amplitude
# Matrices of the size of the Gram matrix that are held beside those of a fit: the Gram
# matrix, the sum of the blocks of an inverse, and two while a block is subtracted.
SCORE_COPIES = 4


@dataclass(frozen=True)
class LabelEvidence:
    """Negative log evidence for each label, by Laplace's approximation.

    The amplitude, the mean prior variance of the latent functions, is learned with the
    kernel. The last mode is kept, because Newton's method finds the mode of a similar
    kernel from there in few steps.

    References
    ----------
    Rasmussen and Williams, "Gaussian processes for machine learning", 2006, section
    5.5.1.
    """

    model: LinkModel  # the likelihood, with the labels of all samples
    # Relative to the mean prior variance of the latent functions.
    noise_variance: float
    _last: list[LinkModel] = field(default_factory=list, init=False, repr=False)

    @property
    def extra_parameter(self) -> tuple[str, float, tuple[float, float]]:
        """Name of the parameter that is learned with the kernel, start and bounds."""
        return AMPLITUDE_LABEL, START, BOUNDS

    def n_copies(self) -> int:
        """Return how many matrices the score holds at once."""
        return self.model.n_copies() + SCORE_COPIES

    def count(self, n: int) -> int:
        """Return a size of a sample, as the protocol requires; it is not used."""
        return n - 1

    def score(
        self, gram: Tensor, targets: Tensor, amplitude: float | None = None, /
    ) -> Score:
        """Return the value for the Gram matrix (n, n) of a batch, and its derivatives.

        The targets (n, k) are indicators of the classes, less an offset for each class:
        the largest of a sample is that of its class. The amplitude is by default the
        one that a search begins with.
        """
        amplitude = START if amplitude is None else amplitude
        scale, n = float(gram.diagonal().mean()), len(gram)
        if not 0.0 < scale < torch.inf:
            raise NotPSDError(f"The mean prior variance is {scale!r} and must be > 0.")
        unit = gram.to(torch.float64) / scale
        nugget = amplitude * self.noise_variance
        model = self._model_of(targets.argmax(dim=1))
        evidence, slopes = model.slopes(unit * amplitude, nugget)
        slopes *= -amplitude / n
        by_unit = float((slopes * unit).sum())
        by_parameter = by_unit + self.noise_variance * float(slopes.diagonal().sum())
        # K was divided by its mean diagonal, which each diagonal entry changes.
        slopes.diagonal().sub_(by_unit / n)
        return Score(-evidence / n, slopes.div_(scale), by_parameter)

    def _model_of(self, codes: Tensor) -> LinkModel:
        """Return the last model if it has these labels, so that its mode is reused."""
        codes = codes.to("cpu")
        if not (self._last and self._last[0].has_labels(codes)):
            self._last[:] = [self.model.with_labels(codes)]
        return self._last[0]
