"""Common steps of estimators that train networks, from settings to modules."""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from skconvgp._settings import as_float
from skconvgp._tensors import permutation
from skconvgp._typing import ImageShape
from skconvgp.engine import rows_to_tensor, to_numpy
from skconvgp.estimators.settings._checks import Given, UnfitError, is_auto

EPOCH = "epoch"  # name of the task that callbacks are told of
A_MAKER = (
    "a callable without arguments that returns a module (not the module, but "
    "`lambda: module`)"
)


def makes_modules(given: object) -> bool:
    """Return whether this is not a module, and can be called without arguments."""
    if isinstance(given, nn.Module) or not callable(given):
        return False
    try:
        signature(given).bind()
    except TypeError:
        return False
    except ValueError:  # it does not tell its arguments
        return True
    return True


def as_held_out(fraction: object) -> float:
    """Return the share of samples that may be held out."""
    number = as_float(fraction)
    if 0.0 < number < 1.0:
        return number
    raise UnfitError("a number > 0 and < 1")


def as_training_rate(rate: object, usual: float) -> float:
    """Return the rate of a training; "auto" is the usual one."""
    if is_auto(rate):
        return usual
    number = as_float(rate)
    if 0.0 < number < math.inf:
        return number
    raise UnfitError("'auto' or a finite number > 0")


def hold_out(
    n: int,
    fraction: float,
    generator: Generator,
    codes: NDArray[np.intp] | None = None,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices of samples to learn from, and of those held out.

    Parameters
    ----------
    n : int
        Number of samples.
    fraction : float
        Share of them that is held out, < 1.
    generator : torch.Generator
        Source of the choice.
    codes : ndarray of shape (n,), optional
        Class codes; a sample of each class is learned from.
    """
    if not fraction:
        return np.arange(n), np.arange(0)
    n_held_out = max(1, round(fraction * n))
    if n_held_out >= n:
        raise ValueError(
            f"validation_fraction={fraction!r} holds out {n_held_out} of "
            f"n_samples={n}, which leaves none to learn from: set a smaller "
            "`validation_fraction`, or settings such as `early_stopping` that need it "
            "to False."
        )
    order = to_numpy(permutation(n, generator))
    may_be = np.ones(n, dtype=bool)  # held out
    if codes is not None:
        may_be[np.unique(codes[order], return_index=True)[1]] = False
    chosen = order[may_be][:n_held_out]
    return np.setdiff1d(order, chosen), np.sort(chosen)


def made_module(given: Given, name: str, make: Callable[[], object]) -> nn.Module:
    """Return the module that a setting makes; raise unless samples can train it."""
    module = make()
    if not isinstance(module, nn.Module):
        given.reject(name, "a callable that returns a torch module", module)
    if any(True for _ in module.buffers()):
        raise ValueError(
            f"`{name}` makes a module with buffers, such as those of batch "
            "normalisation, which depend on more than a sample and the parameters: "
            "leave such layers out."
        )
    return module


def require_outputs(
    given: Given, name: str, module: nn.Module, inputs: Tensor, n_outputs: int, of: str
) -> None:
    """Raise unless a module reads samples, and has parameters and enough outputs.

    The setting `name` makes the module. `inputs` (n, ...) are some samples, and `of`
    is what an output stands for.
    """
    size = tuple(inputs.shape)
    try:
        with torch.no_grad():
            outputs = module(inputs)
    except RuntimeError as error:
        raise ValueError(
            f"`{name}` makes a module that cannot read inputs of shape {size!r}: "
            f"{error}. Rows are read as images if that is possible; set "
            "image_shape=None for inputs of shape (n, d), or the shape of an image."
        ) from error
    if not isinstance(outputs, Tensor):
        made = type(outputs).__name__
        raise ValueError(  # noqa: TRY004  (what a setting makes, not its type)
            f"`{name}` makes a module that returns a {made}, and must return a tensor."
        )
    shape = tuple(outputs.shape)
    if shape != (len(inputs), n_outputs):
        raise ValueError(
            f"`{name}` must return {n_outputs} numbers for each sample, one for each "
            f"{of}: for inputs of shape {size!r} the shape "
            f"{(len(inputs), n_outputs)!r}, and it returned {shape!r}."
        )
    if not any(True for _ in module.parameters()):
        given.reject(name, "a callable that returns a module with parameters", module)


def images_or_rows(rows: NDArray[Any], shape: ImageShape, *, is_image: bool) -> Tensor:
    """Return samples as a network reads them, images or rows, on the host."""
    inputs = rows_to_tensor(rows)
    return inputs.reshape(-1, *shape) if is_image else inputs
