"""Settings of `BinaryEncoder`, checked before any work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skconvgp._settings import is_number
from skconvgp.estimators._resolve import (
    AUTO,
    is_kernel,
    reject,
    resolve_count,
    resolve_flag,
    resolve_verbose,
    resolve_word,
)
from skconvgp.estimators._training import (
    A_MAKER,
    makes_modules,
    resolve_positive,
    resolve_validation,
)
from skconvgp.kernels import Kernel, optical
from skconvgp.networks import ENCODERS, RESNET, Schedule

SCORE, ISOLATED, ANALYTIC = "score", "isolated", "analytic"
STRAIGHT_THROUGH, FEEDBACK = "straight_through", "feedback"
GRADIENTS = (AUTO, SCORE, ISOLATED, ANALYTIC, STRAIGHT_THROUGH, FEEDBACK)
CLASSES, NUMBERS = "classes", "numbers"
OPTICAL = "optical"
RATE, RATE_OF_RESNET = 1e-2, 1e-3
# Epochs without a better one on held-out samples after which training stops.
PATIENCE = 10


@dataclass(frozen=True)
class EncoderSettings:
    """Checked settings of `BinaryEncoder`."""

    n_bits: int
    encoder: str | Callable[[], object]  # name of the encoder, or what makes its module
    # Kernel whose random features the head reads, if there is no function.
    kernel: Kernel
    # Returns the features of codes; None with a kernel.
    function: Callable[[Any], Any] | None
    n_features: int  # number of random features
    gradient: str  # how gradients are estimated, or "auto"
    n_draws: int  # random codes of a sample
    baseline: bool  # whether from each loss the mean of the other ones is subtracted
    penalties: tuple[float, float]  # of the weights of the encoder, and of the head
    # Share of the samples that decide when to stop; 0 for no early stopping.
    validation_fraction: float
    target_type: str  # kind of y, or "auto"
    batch_size: int  # samples of a step
    schedule: Schedule  # epochs, rate and batches
    verbose: int


def read_encoder_settings(owner: Any) -> EncoderSettings:
    """Return the settings of an estimator; raise a ValueError for wrong ones."""
    kernel, function = _head(owner)
    batch_size = resolve_count(owner, "batch_size", owner.batch_size)
    settings = EncoderSettings(
        n_bits=resolve_count(owner, "n_bits", owner.n_bits),
        encoder=_encoder(owner),
        kernel=kernel,
        function=function,
        n_features=resolve_count(owner, "n_features", owner.n_features),
        gradient=resolve_word(owner, "gradient", owner.gradient, GRADIENTS),
        n_draws=resolve_count(owner, "n_draws", owner.n_draws),
        baseline=resolve_flag(owner, "baseline", owner.baseline),
        penalties=(
            resolve_positive(owner, "alpha_encoder", allows_zero=True),
            resolve_positive(owner, "alpha_head", allows_zero=True),
        ),
        validation_fraction=resolve_validation(owner),
        target_type=resolve_word(
            owner, "target_type", owner.target_type, (AUTO, CLASSES, NUMBERS)
        ),
        batch_size=batch_size,
        schedule=Schedule(
            resolve_count(owner, "max_iter", owner.max_iter),
            _learning_rate(owner),
            batch_size,
            look_every=1,
            patience=PATIENCE,
        ),
        verbose=resolve_verbose(owner, owner.verbose),
    )
    _require_consistent(owner, settings)
    return settings


def _learning_rate(owner: Any) -> float:
    rate = owner.learning_rate
    if isinstance(rate, str) and rate == AUTO:
        return RATE_OF_RESNET if owner.encoder == RESNET else RATE
    if not is_number(rate):
        reject(owner, "learning_rate", "'auto' or a finite number > 0", rate)
    return float(rate)


def _encoder(owner: Any) -> Any:
    encoder = owner.encoder
    is_word = isinstance(encoder, str) and encoder in ENCODERS
    if not (is_word or makes_modules(encoder)):
        words = ", ".join(map(repr, ENCODERS))
        reject(owner, "encoder", f"{words} or {A_MAKER}", encoder)
    return encoder


def _head(owner: Any) -> tuple[Kernel, Callable[[Any], Any] | None]:
    head, usual = owner.head, optical(centered=True)
    if isinstance(head, str) and head == OPTICAL:
        return usual, None
    if is_kernel(head):
        return head, None
    if not callable(head) or isinstance(head, type):
        expected = "'optical', a kernel of skconvgp.kernels or a function of codes"
        reject(owner, "head", expected, head)
    return usual, head


def _require_consistent(owner: Any, settings: EncoderSettings) -> None:
    gradient = settings.gradient
    if settings.function is not None and gradient in (ANALYTIC, STRAIGHT_THROUGH):
        expected = (
            "'auto', 'score', 'isolated' or 'feedback' with a function as `head`, "
            "which has no derivatives"
        )
        reject(owner, "gradient", expected, gradient)
    require_draws(owner, settings, gradient)


def require_draws(owner: Any, settings: EncoderSettings, gradient: str) -> None:
    """Raise a ValueError if a gradient needs more random codes of a sample."""
    is_sampled = gradient in (SCORE, ISOLATED)
    if is_sampled and settings.baseline and settings.n_draws < 2:
        expected = "an int >= 2 with baseline=True, the mean of the other draws"
        reject(owner, "n_draws", expected, settings.n_draws)
