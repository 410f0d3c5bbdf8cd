"""Requirements of processes on likelihoods."""

from __future__ import annotations

from collections.abc import Sequence

from skconvgp.processes.fits._label_models import LabelModel


def require_added_noise(name: str, noise: float | str) -> None:
    """Raise if the noise is to be chosen, and follows from the labels."""
    if isinstance(noise, str):
        raise ValueError(  # noqa: TRY004  (a wrong combination, not a wrong type)
            f"{name} derives its noise from the labels, and `noise_variance` is "
            f"added to it: use a number, got {noise!r}."
        )


def require_common_noise(name: str, models: Sequence[LabelModel]) -> None:
    """Raise if the noise follows from the labels, or there is none."""
    if models:
        raise ValueError(
            f"{name} needs a likelihood whose targets share one noise variance, such "
            f"as 'gaussian', got {models[0].likelihood!r}: fit "
            "ConvNetGPClassifier exactly, or with completion=Nystrom()."
        )
