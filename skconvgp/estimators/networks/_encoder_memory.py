"""Memory that training an encoder takes, known before it begins."""

from __future__ import annotations

import math

import torch

from skconvgp.engine import Placement, require_memory
from skconvgp.estimators.networks._encoder_samples import CodedSamples
from skconvgp.estimators.networks._encoder_settings import (
    ISOLATED,
    SCORE,
    EncoderSettings,
)
from skconvgp.networks import LINEAR

# Copies that are held: of features, by derivatives, and of their products, to refit the
# head; of a layer that is trained, its gradient and moments; and bytes of a number.
COPIES, SQUARES, PARAMETERS, BYTES = 8, 4, 4, 8


def step_bytes(settings: EncoderSettings, data: CodedSamples) -> int:
    """Return the bytes that lie on a device at once."""
    is_drawn = data.is_supervised and settings.function is None
    r = settings.n_features if is_drawn else settings.n_bits
    is_sampled = data.is_supervised and settings.gradient in (SCORE, ISOLATED)
    n_codes = min(settings.batch_size, len(data.rows))
    n_codes *= settings.n_draws if is_sampled else 1
    held = COPIES * n_codes * r + SQUARES * r**2 + 2 * r * settings.n_bits
    return int(data.rows.nbytes) + held * BYTES


def require_step(
    settings: EncoderSettings, data: CodedSamples, placement: Placement
) -> None:
    """Raise a TileMemoryError unless a step, and the head, fit into the memory."""
    device = placement.device
    there = int(data.rows.nbytes) if device.type == "cpu" else 0
    remedy = "lower `n_features`, `n_bits`, `batch_size` or `n_draws`."
    user = "Training the encoder"
    require_memory(step_bytes(settings, data) - there, device, user, remedy)


def require_bits(settings: EncoderSettings, data: CodedSamples) -> None:
    """Raise a TileMemoryError unless codes, and their layer, fit into the host."""
    is_linear = settings.encoder == LINEAR
    n_inputs = math.prod(data.image_shape) if is_linear else 1
    n_numbers = settings.n_bits * (len(data.rows) + PARAMETERS * n_inputs)
    what = f"An encoder of {len(data.rows)} samples"
    require_memory(n_numbers * BYTES, torch.device("cpu"), what, "lower `n_bits`.")
