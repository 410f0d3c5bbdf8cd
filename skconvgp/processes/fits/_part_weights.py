"""Which parts a sum has, and with which weights: what left-out images say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from skconvgp.engine import rows_to_tensor
from skconvgp.inference import LeftOutSamples, Mixture, WeightedSum, choose_mixture
from skconvgp.processes._problem import ROUNDING, Problem
from skconvgp.processes._run import Run
from skconvgp.processes.fits._part_choice import PartChoice, cost_of

# Share of a part that is kept; as a share of equal shares, if there are many parts.
LEAST_SHARE, LEAST_OF_EQUAL = 0.02, 0.5
# How much worse the criterion may be for a millisecond less of a new image. In a fit to
# twice the images that judge it is a quarter, and so on: some parts gain more from
# further images than these know (docs/adr/image-classifier.md).
PRICE = 3e-3


def left_out_samples(problem: Problem, run: Run) -> LeftOutSamples:
    """Return the samples of a problem, one for each input; groups leave together."""
    inputs = problem.inputs.to(run.config.device)
    y, w = run.tensor(problem.targets), run.tensor(problem.weights)
    y, w = y.to(torch.float64), w.to(torch.float64)
    merged, of = inputs.merge(y, w), inputs.input_groups
    groups = None if of is None else _by_size(of)
    shares = is_known = None
    if problem.codes is not None:
        codes = rows_to_tensor(problem.class_codes).to(w.device)
        n_classes = max(2, len(problem.scale))
        own = inputs.sum(torch.nn.functional.one_hot(codes, n_classes) * w[:, None])
        shares = own / own.sum(1, keepdim=True)
        totals, label = own.sum(0), shares.argmax(1, keepdim=True)
        if of is not None:  # whole groups leave
            sums = own.new_zeros(int(of.max()) + 1, n_classes)
            own = sums.index_add_(0, of, own)[of]
        others = (totals[label] - own.gather(1, label))[:, 0]
        is_known = others > ROUNDING * totals[label][:, 0]
    found = LeftOutSamples(merged.targets, merged.weights, shares, groups, is_known)
    factors = problem.class_factors
    if factors is None:
        return found
    return replace(found, class_factors=rows_to_tensor(factors).to(w)[inputs.first()])


def _by_size(of: Tensor) -> list[Tensor]:
    """Return the members (g, s) of the groups (n,) of samples, for each size s."""
    sizes = of.bincount()
    order = of.argsort(stable=True)
    return [
        order[(sizes[of] == size)[order]].reshape(-1, size)
        for size in sorted(set(sizes.tolist()) - {0})
    ]


def without_idle(
    total: WeightedSum,
    samples: LeftOutSamples,
    found: Mixture,
    choices: Sequence[PartChoice],
    n_images: int,
) -> Mixture:
    """Return a mixture without the parts that add little to a fit of so many images.

    Parts of a small share go first. Then the dearest parts are tried: a part goes if
    the criterion rises by less than its price, once the other parts are chosen anew.
    """
    price = PRICE * min(1.0, len(samples.targets) / n_images) ** 2
    kept: list[int] = np.flatnonzero(found.shares).tolist()
    n_free = int(total.is_free.sum())
    least = total.room * min(LEAST_SHARE, LEAST_OF_EQUAL / max(n_free, 1))
    small = {i for i in kept if total.is_free[i] and found.shares[i] < least}
    if small:
        kept = [i for i in kept if i not in small]
        found = _of_some(total, samples, found, kept)
    dear = [i for i in kept if total.is_free[i]]
    for i in sorted(dear, key=lambda i: -cost_of(choices, [i])):
        fewer = [j for j in kept if j != i]
        if not any(total.is_free[j] for j in fewer):
            continue
        saved = cost_of(choices, kept) - cost_of(choices, fewer)
        tried = _of_some(total, samples, found, fewer)
        if tried.left_out - found.left_out < price * saved:
            kept, found = fewer, tried
    return found


def _of_some(
    total: WeightedSum, samples: LeftOutSamples, found: Mixture, kept: list[int]
) -> Mixture:
    """Return the best mixture of some parts, from a mixture of more of them."""
    few = replace(
        total,
        grams=[total.grams[i] for i in kept],
        given=total.given[kept],
        preferred=total.preferred[kept],
    )
    free = few.is_free
    start = replace(found, logs=np.log(found.shares[kept][free]))
    own = choose_mixture(few, samples, start)
    shares = np.zeros(len(total.grams))
    shares[kept] = own.shares
    return replace(own, shares=shares)
