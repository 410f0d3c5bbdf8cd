"""Familiarity: spans of usual values, and the share of a probability that is kept."""

from dataclasses import astuple

import numpy as np
import pytest
import torch

from skconvgp.likelihoods import Calibration, Familiarity, Span

RNG = np.random.default_rng(0)
CODES = torch.as_tensor(RNG.integers(0, 3, 400))
CENTRES = 1.5 * np.eye(3) - 0.5
MEAN = torch.as_tensor(CENTRES[CODES] + 0.1 * RNG.normal(size=(400, 3)))
VAR = torch.as_tensor(np.exp(0.1 * RNG.normal(size=(400, 3))))
PRIOR = torch.as_tensor(np.exp(0.2 * RNG.normal(size=400)))
ONES = torch.ones(400, dtype=torch.float64)
CONTRAST = torch.as_tensor(np.exp(0.2 * RNG.normal(size=400)))
SEEN = {"prior": PRIOR, "contrast": CONTRAST}
USUAL = Familiarity.of(MEAN, VAR, CODES, ONES, SEEN, ONES)


def test_a_span_has_the_tail_of_its_values():
    for shape in (0.0, 0.25):
        # A generalized Pareto distribution of shape 0 is exponential.
        uniform = torch.as_tensor(RNG.uniform(size=200_000))
        scale = 0.3
        excess = -uniform.log() if shape == 0.0 else (uniform**-shape - 1.0) / shape
        span = Span.of((scale * excess).exp(), torch.ones_like(uniform))
        decile = float((scale * excess).quantile(0.9))
        assert span.decile == pytest.approx(decile, rel=1e-4)
        assert span.shape == pytest.approx(shape, abs=0.05)
        beyond = scale * (1.0 if shape == 0.0 else 10.0**shape)  # that of the tail
        assert span.scale == pytest.approx(beyond, rel=0.06)
        # One in 10^5 has a rarity of log(10^4).
        rare = float((scale * excess).quantile(1.0 - 1e-5))
        above = float(span.above(torch.tensor([np.exp(rare)])))
        assert 2.0 * above + span.limit == pytest.approx(np.log(1e4), abs=0.9)
        assert float(span.above(torch.tensor([np.exp(span.decile)]))) == 0.0


def test_a_span_of_few_large_values_goes_up_to_them():
    values = torch.cat([ONES, torch.tensor([40.0, 50.0])]).to(torch.float64)
    weights = torch.ones(402, dtype=torch.float64)
    above = Span.of(values, weights).above(values)
    assert float((above**2 / (1.0 + above)).mean()) <= 3e-4
    assert float(Span.of(ONES, ONES).above(values)[-1]) > 100.0


def some_of(index):
    return {name: values[index] for name, values in SEEN.items()}


def test_weights_are_copies():
    weights = torch.as_tensor(RNG.integers(0, 3, 400))
    copies = np.repeat(np.arange(400), weights.numpy())
    ones = torch.ones(len(copies), dtype=torch.float64)
    expected = Familiarity.of(
        MEAN[copies], VAR[copies], CODES[copies], ones, some_of(copies), ones
    )
    weights = weights.to(torch.float64)
    kept = weights > 0.0
    found = Familiarity.of(MEAN, VAR, CODES, weights, some_of(kept), weights[kept])
    np.testing.assert_allclose(found.centres, expected.centres)
    assert len(found.spans) == 7
    for name, span in found.spans.items():
        assert astuple(span) == pytest.approx(astuple(expected.spans[name]))


def test_usual_samples_keep_nearly_all_of_their_probability():
    share = USUAL.share(MEAN, VAR, SEEN)
    assert float(-share.log().mean()) < 7 * 3e-4
    assert float(share.median()) == 1.0


FIRST = {name: values[:1] for name, values in SEEN.items()}


@pytest.mark.parametrize(
    ("mean", "var", "seen"),
    [
        (MEAN[:1], 10.0 * VAR[:1], FIRST),
        (4.0 * MEAN[:1], VAR[:1], FIRST),
        (torch.tensor([[0.9, 0.9, -1.8]], dtype=torch.float64), VAR[:1], FIRST),
        (MEAN[:1], VAR[:1], FIRST | {"prior": 5.0 + PRIOR[:1]}),
        (MEAN[:1], VAR[:1], FIRST | {"prior": 0.1 * PRIOR[:1]}),
        (MEAN[:1], VAR[:1], FIRST | {"contrast": 5.0 + CONTRAST[:1]}),
        (MEAN[:1], VAR[:1], FIRST | {"contrast": 0.0 * CONTRAST[:1]}),
    ],
    ids=[
        "variance",
        "norm",
        "far from all classes",
        "large prior",
        "small prior",
        "large contrast",
        "blank",
    ],
)
def test_each_number_shows_a_strange_sample(mean, var, seen):
    alone = USUAL.share(mean, var, seen)
    assert float(alone) < 0.5
    among = {name: torch.cat([each, SEEN[name][:5]]) for name, each in seen.items()}
    several = torch.cat([mean, MEAN[:5]])
    together = USUAL.share(several, torch.cat([var, VAR[:5]]), among)
    assert float(together[0]) == float(alone)


def test_a_small_variance_is_no_sign():
    # That of a copy of a training sample is next to nothing.
    share = USUAL.share(MEAN[:1], 1e-9 * VAR[:1], FIRST)
    usual = USUAL.share(MEAN[:1], VAR[:1].clamp(max=1.0), FIRST)
    assert float(share) == float(usual)


def test_numbers_that_are_not_known_do_not_count():
    unknown = Familiarity.of(MEAN, None, CODES, ONES, {}, ONES)
    assert set(unknown.spans) == {"distance", "norm"}
    wild = {name: 1e6 * values for name, values in SEEN.items()}
    found = unknown.share(MEAN, 1e6 * VAR, wild)
    np.testing.assert_array_equal(found, unknown.share(MEAN, None, {}))


def test_few_left_out_samples_say_nothing():
    few = slice(0, 59)
    given = MEAN[few], VAR[few], CODES[few], ONES[few], some_of(few), ONES[few]
    assert Familiarity.of(*given) is None


def test_probabilities_fade_and_the_most_probable_class_stays():
    calibration = Calibration(0.3, 1.0, (), 0.1, 0.01)
    fading = Calibration(0.3, 1.0, (), 0.1, 0.01, USUAL)
    var = torch.exp(torch.linspace(0.0, 8.0, 400))[:, None].to(torch.float64) * VAR
    before = torch.softmax(calibration.latents(MEAN, var)[0], dim=1)
    assert calibration.faded(before, MEAN, var, SEEN) is before
    after = fading.faded(before, MEAN, var, SEEN)
    share = USUAL.share(MEAN, var, SEEN)[:, None]
    np.testing.assert_allclose(after, share * before + (1.0 - share) / 3.0, atol=1e-12)
    np.testing.assert_array_equal(after.argmax(1), before.argmax(1))
    assert float(share[-1]) == pytest.approx(np.exp(-7.0))
