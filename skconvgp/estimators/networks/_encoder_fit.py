"""How `BinaryEncoder` is fitted: encoder, features, training, head, attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Generator, Tensor

from skconvgp._tensors import normals
from skconvgp._threads import LARGE, threads_for
from skconvgp.engine import (
    Placement,
    compute_at,
    freeze,
    slices,
    thaw,
    to_numpy,
    to_tensor,
)
from skconvgp.estimators._callbacks import FitTasks
from skconvgp.estimators._training import (
    EPOCH,
    hold_out,
    images_or_rows,
    made_module,
    require_outputs,
)
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._progress import EPOCHS, progress_of
from skconvgp.estimators.networks._encoder_head import BLOCK, CodeHead, unit_scale
from skconvgp.estimators.networks._encoder_memory import (
    require_bits,
    require_step,
    step_bytes,
)
from skconvgp.estimators.networks._encoder_samples import CodedSamples
from skconvgp.estimators.networks._encoder_settings import (
    ANALYTIC,
    FEEDBACK,
    ISOLATED,
    SCORE,
    STRAIGHT_THROUGH,
    EncoderSettings,
)
from skconvgp.estimators.settings._checks import AUTO
from skconvgp.kernels._feature_maps import KernelSource
from skconvgp.networks import (
    LEAST_SIDE,
    Analytic,
    BlackBox,
    CodeFeatures,
    Coding,
    CodingTask,
    CodingValidation,
    Encoder,
    Epoch,
    Estimate,
    Feedback,
    Isolated,
    KernelCodes,
    ModuleEncoder,
    NamedEncoder,
    Parameters,
    Relaxed,
    Score,
    SignedCodes,
    StraightThrough,
    Trained,
    encoder_values,
    fit_readout,
    joined_parameters,
    seeded,
    train,
)
from skconvgp.processes import require_features

# Samples whose first codes give the scale of features, and a lengthscale its median.
FEW = 2000
BALANCED = 200  # samples for which the first bits are 0 and 1 equally often
# Numbers that a layer of a module holds of a sample, as a multiple of its input.
GROWTH = 32
# Steepness of the bits of an autoencoder in the last epoch.
STEEPEST = 100.0
# Share of bits that may be equal for all training samples, without a warning.
LARGEST_CONSTANT = 0.5


@dataclass(frozen=True)
class FittedEncoder:
    """Result of a fit, on the host."""

    encoder: Encoder
    values: dict[str, NDArray[Any]]
    head: CodeHead
    losses: list[float]
    placement: Placement
    dtype: torch.dtype
    n_constant: int


def fit_encoder(
    settings: EncoderSettings, data: CodedSamples, tasks: FitTasks
) -> FittedEncoder:
    """Train the encoder, and refit the head; the tasks are told of each epoch."""
    settings.given.require_device()
    require_bits(settings, data)
    placement = settings.given.placement(step_bytes(settings, data))
    require_step(settings, data, placement)
    seed = settings.given.generator().initial_seed()
    encoder, start = _make_encoder(settings, data, seed)
    work = _Work(settings, data, encoder, start, seed)
    show = progress_of(settings.verbose)("codes", unit=EPOCHS)

    def watch(epoch: Epoch) -> bool:
        show(epoch.index + 1, epoch.total)
        return tasks.step(EPOCH)

    with threads_for(LARGE if encoder.is_spatial else 0.0):  # convolutions are large
        fitted = compute_at(placement, partial(work.fit, watch=watch))
    _judge_bits(fitted.n_constant, settings)
    return fitted


def inputs_for(encoder: Encoder, rows: NDArray[Any], shape: Any) -> Tensor:
    """Return samples as an encoder reads them, on the host."""
    return images_or_rows(rows, shape, is_image=encoder.is_spatial)


def logits_in_blocks(
    encoder: Encoder, values: dict[str, Tensor], inputs: Tensor
) -> Iterator[Tensor]:
    """Yield logits of blocks of samples, in the precision of the values."""
    like = next(iter(values.values()))
    width = inputs[0].numel() * (GROWTH if encoder.is_spatial else 1)
    with torch.no_grad():
        for block in slices(len(inputs), max(1, BLOCK // width)):
            with threads_for(LARGE if encoder.is_spatial else 0.0):
                logits = encoder.logits(values, inputs[block].to(like))
            yield logits


class _Work:
    """Everything that a fit reads, on the host."""

    def __init__(
        self,
        settings: EncoderSettings,
        data: CodedSamples,
        encoder: Encoder,
        start: dict[str, Tensor],
        seed: int,
    ) -> None:
        self._settings, self._data = settings, data
        self._encoder, self._start, self._seed = encoder, start, seed

    def fit(
        self, placement: Placement, watch: Callable[[Epoch], bool]
    ) -> FittedEncoder:
        """Return the result of a fit on a device."""
        require_step(self._settings, self._data, placement)
        # A fresh generator, for the case that another device begins again.
        generator = torch.Generator().manual_seed(self._seed)
        device, settings, data = placement.device, self._settings, self._data
        dtype = settings.given.dtype(device)
        inputs = inputs_for(self._encoder, data.rows, data.image_shape).to(device)
        values = {name: one.to(device, dtype) for name, one in self._start.items()}
        features = self._features(values, inputs, generator)
        losses = data.decoded.losses(device)
        coding = Coding(self._encoder, features, inputs, losses, dtype)
        estimate = self._estimate(features, losses.n_outputs, values, generator)
        trained = self._train(coding, values, estimate, generator, watch)
        if not bool(trained.is_finite.all()):
            raise FloatingPointError(
                "Training diverged: lower `learning_rate` "
                f"({settings.schedule.learning_rate!r}), or scale X to numbers near 1."
            )
        values = encoder_values(trained.parameters)
        parts = logits_in_blocks(self._encoder, values, inputs)
        codes = torch.cat([(logits > 0.0).to(torch.uint8) for logits in parts])
        head = self._head(features, codes)
        n_constant = int((codes == codes[:1]).all(0).sum())
        arrays = {name: to_numpy(one) for name, one in values.items()}
        return FittedEncoder(
            self._encoder, arrays, head, trained.losses, placement, dtype, n_constant
        )

    def _train(
        self,
        coding: Coding,
        values: dict[str, Tensor],
        estimate: Estimate,
        generator: Generator,
        watch: Callable[[Epoch], bool],
    ) -> Trained:
        settings, device = self._settings, coding.inputs.device
        n_at_once = min(settings.batch_size, len(self._data.rows))
        learned, held_out = (
            to_tensor(one, device)
            for one in hold_out(
                len(coding.inputs), settings.validation_fraction, generator
            )
        )
        like = next(iter(values.values()))
        size = coding.features.n_features, coding.losses.n_outputs
        start: Parameters = joined_parameters(values, *size, like)
        task = CodingTask(
            coding,
            learned,
            estimate,
            settings.penalties,
            n_at_once,
            generator,
        )
        validation = None
        if len(held_out):
            validation = CodingValidation(coding, held_out, n_at_once, generator)

        def watched(epoch: Epoch) -> bool:
            if isinstance(estimate, Relaxed):
                estimate.steepness = STEEPEST ** ((epoch.index + 1) / epoch.total)
            return watch(epoch)

        return train(task, start, settings.schedule, generator, watched, validation)

    def _features(
        self, values: dict[str, Tensor], inputs: Tensor, generator: Generator
    ) -> CodeFeatures:
        """Return features of codes, of the mean length 1 for first codes."""
        settings = self._settings
        if not self._data.is_supervised:
            return SignedCodes(settings.n_bits)
        parts = logits_in_blocks(self._encoder, values, inputs[:FEW])
        codes = torch.cat([(logits > 0.0).to(logits) for logits in parts])
        if settings.function is not None:
            first = np.asarray(settings.function(to_numpy(codes[:2]).astype(np.uint8)))
            if first.ndim != 2 or not first.shape[1]:
                raise ValueError(
                    "`head` must return an array of two dimensions, a row of features "
                    f"for each code, and returned the shape {first.shape!r}."
                )
            if np.iscomplexobj(first):
                raise ValueError(
                    "`head` must return real numbers, and returned complex ones: "
                    "return their squared moduli, or real and imaginary parts."
                )
            box = BlackBox(settings.function, first.shape[1])
            return BlackBox(settings.function, box.n_features, unit_scale(box, codes))
        kernel = settings.kernel.resolve(to_numpy(codes))
        source = KernelSource(kernel, (settings.n_bits, 1, 1), require_features)
        drawn = source.feature_map(settings.n_features, generator, exact_diag=False)
        features = KernelCodes(thaw(freeze(drawn), codes.device))
        return replace(features, scale=unit_scale(features, codes))

    def _estimate(
        self,
        features: CodeFeatures,
        n_outputs: int,
        values: dict[str, Tensor],
        generator: Generator,
    ) -> Estimate:
        settings, gradient = self._settings, self._settings.gradient
        if not self._data.is_supervised:
            return Relaxed()
        like = next(iter(values.values()))
        has_mean = features.mean(like.new_zeros(1, settings.n_bits)) is not None
        if gradient == AUTO:
            gradient = ANALYTIC if has_mean else SCORE
            settings.require_draws(gradient)
        if gradient in (SCORE, ISOLATED):
            sampled = Score if gradient == SCORE else Isolated
            return sampled(settings.n_draws, settings.baseline)
        if gradient == FEEDBACK:
            size = (n_outputs, settings.n_bits)
            weights = normals(size, generator)
            return Feedback(weights.to(like) / math.sqrt(n_outputs))
        if gradient == STRAIGHT_THROUGH:
            return StraightThrough()
        if not has_mean:
            expected = (
                "'auto', 'score', 'isolated', 'straight_through' or 'feedback' with "
                f"head={settings.kernel!r}: the mean features of random bits are known "
                "for 'optical', optical(2) and dot_product()"
            )
            settings.given.reject("gradient", expected, gradient)
        return Analytic()

    def _head(self, features: CodeFeatures, codes: Tensor) -> CodeHead:
        """Return the head of thresholded codes."""
        size = max(1, BLOCK // features.n_features)

        def blocks() -> Iterator[tuple[Tensor, Tensor]]:
            for rows in slices(len(codes), size):
                targets = self._data.decoded.targets(rows)
                bits = codes[rows].to(torch.float64)
                yield features(bits), to_tensor(targets, codes.device)

        readout = fit_readout(blocks)
        return CodeHead(
            freeze(features),
            to_numpy(readout.coef),
            to_numpy(readout.intercept),
            readout.alpha,
            self._data.decoded.is_single,
        )


def _judge_bits(n_constant: int, settings: EncoderSettings) -> None:
    """Warn if many bits do not tell samples apart."""
    n_bits = settings.n_bits
    remedy = "Lower `n_bits`, or raise `max_iter`."
    if not isinstance(settings.encoder, str):
        remedy = (
            "A module as `encoder` sees X as it is: scale X to mean 0 and numbers near "
            "1. Otherwise lower `n_bits`, or raise `max_iter`."
        )
    if n_constant > LARGEST_CONSTANT * n_bits:
        warn_caller(
            f"{n_constant} of {n_bits} bits are equal for all training samples, and "
            f"tell none apart. {remedy}",
            ConvergenceWarning,
        )


def _make_encoder(
    settings: EncoderSettings, data: CodedSamples, seed: int
) -> tuple[Encoder, dict[str, Tensor]]:
    """Return the encoder, and the parameters that training begins with."""
    shape, n_bits, made = data.image_shape, settings.n_bits, settings.encoder
    if isinstance(made, str):
        units = data.units.offset, float(data.units.scale[0])
        encoder = NamedEncoder(made, shape, n_bits, *units)
        if encoder.is_spatial and min(shape[1:]) < LEAST_SIDE:
            raise ValueError(
                f"encoder={made!r} needs images of {LEAST_SIDE} x {LEAST_SIDE} pixels "
                f"or more, and X was read as images of shape {shape!r} (c, h, w): set "
                "`image_shape`, or encoder='linear'."
            )
        values = encoder.start(torch.Generator().manual_seed(seed))
        few = np.random.RandomState(seed % 2**32).permutation(len(data.rows))[:BALANCED]
        images = inputs_for(encoder, data.rows[few], shape)
        logits = torch.cat(list(logits_in_blocks(encoder, values, images)))
        return encoder, encoder.balanced(values, logits)
    make = partial(seeded, made, seed)
    module = made_module(settings.given, "encoder", make).to(torch.float64).eval()
    of_module = ModuleEncoder(module, is_spatial=max(shape[1:]) > 1)
    inputs = inputs_for(of_module, np.asarray(data.rows[:2], np.float64), shape)
    require_outputs(settings.given, "encoder", module, inputs, n_bits, "bit")
    return of_module, _values(module)


def _values(module: torch.nn.Module) -> dict[str, Tensor]:
    return {name: one.detach() for name, one in module.named_parameters()}
