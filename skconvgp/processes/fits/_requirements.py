"""Requirements of processes on likelihoods."""

from __future__ import annotations

from collections.abc import Sequence

from skconvgp._protocols import LinkLikelihood, Localization
from skconvgp.processes._plan import Parts
from skconvgp.processes._problem import Settings
from skconvgp.processes.basis._plain import PlainBasis
from skconvgp.processes.fits._label_models import LabelModel
from skconvgp.processes.posterior._neighbor_solver import is_weighted


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


def require_local(
    localization: Localization,
    parts: Parts,
    settings: Settings,
    basis: PlainBasis,
    models: Sequence[LabelModel],
) -> None:
    """Raise if something does not go together with predictions from neighbours."""
    if models and isinstance(models[0].likelihood, LinkLikelihood):
        require_common_noise(repr(localization), models)
    if not parts.is_direct:
        raise ValueError(
            f"{localization!r} solves a small system for each sample by its "
            f"Cholesky factor: use solver='auto', got "
            f"{parts.solver_setting!r}."
        )
    if settings.noise == "evidence":
        raise ValueError(
            f"{localization!r} does not choose `noise_variance` by 'evidence': use "
            "'loo' or a number."
        )
    if is_weighted(localization) and not basis.knows_variances:
        raise ValueError(
            f"{localization!r} weighs neighbours by their distances, which a "
            "precomputed matrix does not give: use weights='uniform', or a kernel "
            "object."
        )
