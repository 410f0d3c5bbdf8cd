"""Settings of `BinaryEncoder`, checked before any work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skconvgp.estimators._training import (
    A_MAKER,
    as_held_out,
    as_training_rate,
    makes_modules,
)
from skconvgp.estimators.settings._checks import (
    AUTO,
    Given,
    as_count,
    as_flag,
    as_positive,
    is_kernel,
    word_of,
)
from skconvgp.estimators.settings._compute import Compute
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

    given: Compute  # the settings as they were given
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

    def require_draws(self, gradient: str) -> None:
        """Raise a ValueError if a gradient needs more random codes of a sample."""
        is_sampled = gradient in (SCORE, ISOLATED)
        if is_sampled and self.baseline and self.n_draws < 2:
            expected = "an int >= 2 with baseline=True, the mean of the other draws"
            self.given.reject("n_draws", expected)


def read_encoder_settings(given: Compute) -> EncoderSettings:
    """Return the settings of an estimator; raise a ValueError for wrong ones."""
    kernel, function = _head(given)
    batch_size = given.read("batch_size", as_count)
    fraction = given.read("validation_fraction", as_held_out)
    usual_rate = RATE_OF_RESNET if given["encoder"] == RESNET else RATE
    settings = EncoderSettings(
        given=given,
        n_bits=given.read("n_bits", as_count),
        encoder=_encoder(given),
        kernel=kernel,
        function=function,
        n_features=given.read("n_features", as_count),
        gradient=given.read("gradient", word_of(GRADIENTS)),
        n_draws=given.read("n_draws", as_count),
        baseline=given.read("baseline", as_flag),
        penalties=(
            given.read("alpha_encoder", as_positive, allows_zero=True),
            given.read("alpha_head", as_positive, allows_zero=True),
        ),
        validation_fraction=fraction if given.read("early_stopping", as_flag) else 0.0,
        target_type=given.read("target_type", word_of((AUTO, CLASSES, NUMBERS))),
        batch_size=batch_size,
        schedule=Schedule(
            given.read("max_iter", as_count),
            given.read("learning_rate", as_training_rate, usual=usual_rate),
            batch_size,
            look_every=1,
            patience=PATIENCE,
        ),
        verbose=given.verbose,
    )
    if function is not None and settings.gradient in (ANALYTIC, STRAIGHT_THROUGH):
        expected = (
            "'auto', 'score', 'isolated' or 'feedback' with a function as `head`, "
            "which has no derivatives"
        )
        given.reject("gradient", expected)
    settings.require_draws(settings.gradient)
    return settings


def _encoder(given: Given) -> Any:
    encoder = given["encoder"]
    is_word = isinstance(encoder, str) and encoder in ENCODERS
    if not (is_word or makes_modules(encoder)):
        words = ", ".join(map(repr, ENCODERS))
        given.reject("encoder", f"{words} or {A_MAKER}")
    return encoder


def _head(given: Given) -> tuple[Kernel, Callable[[Any], Any] | None]:
    head, usual = given["head"], optical(centered=True)
    if isinstance(head, str) and head == OPTICAL:
        return usual, None
    if is_kernel(head):
        return head, None
    if not callable(head) or isinstance(head, type):
        expected = "'optical', a kernel of skconvgp.kernels or a function of codes"
        given.reject("head", expected)
    return usual, head
