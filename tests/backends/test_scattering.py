"""Scattering by the extension, against torch in double precision."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skconvgp.backends import _fused_cpu
from skconvgp.backends._scattering import ScatteringTables, can_scatter
from skconvgp.image_maps import Scattering
from skconvgp.image_maps._scattering import compiled_tables
from tests.helpers.fused import LANES, needs_extension

pytestmark = needs_extension
BOUND = 1e-6  # of the largest coefficient
# Height, width, J, L, order: powers of two, odd factors with and without code of their
# own, rectangles, averages whose windows go around the border.
CASES = [
    (8, 8, 1, 8, 2),
    (8, 8, 3, 3, 2),
    (9, 31, 1, 4, 1),
    (16, 19, 4, 2, 2),
    (28, 28, 2, 8, 2),
    (17, 32, 3, 8, 2),
    (32, 32, 3, 8, 2),
    (32, 48, 4, 2, 2),
    (2, 112, 1, 2, 2),
    (112, 90, 4, 1, 2),
]


@pytest.fixture(params=_fused_cpu.instruction_sets())
def each_processor(request, monkeypatch):
    """Compute with each instruction set that this machine has."""
    monkeypatch.setattr(_fused_cpu, "INSTRUCTION_SET", request.param)


def images(n, height, width, seed=0):
    generator = torch.Generator().manual_seed(seed)
    found = torch.rand(n, height, width, generator=generator)
    found[0, : height // 2] = 0.25
    return found


def compiled(scattering, given):
    """Return coefficients (n, k, h', w') of images (n, h, w) by the extension."""
    size = tuple(given.shape[1:])
    out = torch.full((len(given), *scattering.shape((1, *size))), torch.nan)
    compiled_tables(size, scattering).write(given, torch.ones(len(given)), out)
    return out


@pytest.mark.usefixtures("each_processor")
@pytest.mark.parametrize(("height", "width", "n_scales", "n_angles", "order"), CASES)
def test_coefficients_are_those_of_torch(height, width, n_scales, n_angles, order):
    scattering = Scattering(n_scales, n_angles, order)
    given = images(5, height, width)
    exact = scattering(given[:, None].double())
    found = compiled(scattering, given)
    assert found.shape == exact.shape
    assert float((found - exact).abs().max()) < BOUND * float(exact.abs().max())


@given(
    st.tuples(st.integers(2, 40), st.integers(2, 40)),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(0, 10),
)
@settings(max_examples=15)
def test_images_of_any_size(size, n_scales, n_angles, order, seed):
    n_scales = min(n_scales, min(size).bit_length() - 1)
    scattering = Scattering(n_scales, n_angles, order)
    given = images(2, *size, seed=seed)
    exact = scattering(given[:, None].double())
    error = (compiled(scattering, given) - exact).abs().max()
    assert float(error) < BOUND * float(exact.abs().max())


@pytest.mark.usefixtures("each_processor")
def test_an_image_has_the_same_bits_alone():
    scattering = Scattering(2, 4, 2)
    given = images(37, 20, 12)
    among_others = compiled(scattering, given)
    for k in (0, 5, 36):
        assert torch.equal(compiled(scattering, given[k : k + 1])[0], among_others[k])


def test_channels_and_threads_do_not_matter(monkeypatch):
    """All channels of all images are lanes; a few go to each thread."""
    scattering = Scattering(2, 4, 2)
    given = images(40, 12, 8).reshape(20, 2, 12, 8)
    whole = scattering(given)
    assert whole.shape == (20, *scattering.shape((2, 12, 8)))
    monkeypatch.setattr("skconvgp.image_maps._scattering.COMPILED_AT_ONCE", 3)
    assert torch.equal(scattering(given), whole)
    assert torch.equal(scattering(given[7:8, 1:]), whole[7:8, whole.shape[1] // 2 :])


@pytest.mark.usefixtures("each_processor")
def test_images_of_any_unit():
    """Squares of small and of large moduli are no numbers; a unit of its own helps."""
    scattering = Scattering(2, 4, 2)
    given = images(3, 12, 8)[:, None]
    expected = scattering(given)
    factors = torch.tensor([2.0**-100, 1.0, 2.0**100])[:, None, None, None]
    assert torch.equal(scattering(given * factors), expected * factors)


def test_images_that_are_not_contiguous():
    scattering = Scattering(1, 4, 2)
    given = images(6, 12, 10)
    found = compiled(scattering, given.mT)
    assert torch.equal(found, compiled(scattering, given.mT.contiguous()))


@pytest.mark.usefixtures("each_processor")
def test_values_that_are_no_numbers_stay_in_their_image():
    scattering = Scattering(1, 4, 2)
    given = images(4, 12, 10)
    expected = compiled(scattering, given)
    given[2, 3, 4] = torch.nan
    found = compiled(scattering, given)
    assert bool(found[2, 1:].isnan().all())
    assert torch.equal(found[[0, 1, 3]], expected[[0, 1, 3]])


@pytest.mark.usefixtures("each_processor")
def test_no_images():
    found = compiled(Scattering(1, 4, 2), images(1, 12, 10)[:0])
    assert found.shape == (0, 5, 6, 5)


def test_torch_computes_what_the_extension_cannot(monkeypatch):
    given = images(1, 8, 8)
    padded = 12, 12
    assert can_scatter(given, padded)
    assert not can_scatter(given.double(), padded)
    assert not can_scatter(given, (12, 258))
    wanted = given.clone().requires_grad_()
    assert not can_scatter(wanted, padded)
    with torch.no_grad():
        assert can_scatter(wanted, padded)
    monkeypatch.setattr(_fused_cpu, "INSTRUCTION_SET", LANES)
    assert not can_scatter(given, padded)
    scattering = Scattering(1, 4, 2)
    torch.testing.assert_close(
        scattering(given[:, None]), scattering(given[:, None].double()).float()
    )


def tables(**changes):
    """Return the arguments of tables for images of 4 x 6 pixels, some changed."""
    right = {
        "size": (4, 6),
        "row_of": torch.arange(8) % 4,
        "column_of": torch.arange(12) % 6,
        "rows": [torch.ones(1, 8).double(), torch.ones(1, 4).double()],
        "columns": [torch.ones(1, 12).double(), torch.ones(1, 6).double()],
        "waves": [
            torch.ones(1, 2, 8, 12).double(),
            torch.ones(4, 2, 4, 6).double(),
        ],
        "order": 2,
    }
    return right | changes


WRONG = {
    "no image": {"size": (0, 6)},
    "large image": {"size": (4, 300)},
    "row outside": {"row_of": torch.full((8,), 4)},
    "negative column": {"column_of": torch.arange(12) - 1},
    "odd rows": {"row_of": torch.zeros(6)},
    "no rows": {"row_of": torch.zeros(0)},
    "many rows": {"row_of": torch.zeros(512)},
    "no scales": {"rows": [], "columns": []},
    "scales of one side": {"rows": [torch.ones(1, 8).double()]},
    "length of averages": {"rows": [torch.ones(1, 8).double()] * 2},
    "number of averages": {
        "rows": [torch.ones(1, 8).double(), torch.ones(2, 4).double()]
    },
    "no averages": {"rows": [torch.ones(0, 8).double(), torch.ones(0, 4).double()]},
    "many averages": {"rows": [torch.ones(9, 8).double(), torch.ones(9, 4).double()]},
    "missing waves": {"waves": [torch.ones(1, 2, 8, 12).double()]},
    "too many waves": {"waves": [*tables()["waves"], torch.ones(1, 2, 8, 12).double()]},
    "other angles": {"waves": [tables()["waves"][0], torch.ones(4, 3, 4, 6).double()]},
    "no angles": {
        "waves": [torch.ones(1, 0, 8, 12).double(), torch.ones(4, 0, 4, 6).double()]
    },
    "size of waves": {
        "waves": [torch.ones(1, 2, 8, 10).double(), *tables()["waves"][1:]]
    },
    "order": {"order": 3},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
def test_malformed_tables(changes):
    ScatteringTables(**tables())
    with pytest.raises(ValueError, match="malformed"):
        ScatteringTables(**tables(**changes))


def test_averages_without_weights_are_zeros():
    """They are written, too: memory that nobody wrote may hold anything."""
    nothing = [torch.zeros(1, 8).double(), torch.zeros(1, 4).double()]
    out = torch.full((2, 9, 1, 1), torch.nan)
    given = torch.ones(2, 4, 6), torch.ones(2)
    ScatteringTables(**tables(rows=nothing)).write(*given, out)
    assert torch.equal(out, torch.zeros_like(out))


def test_malformed_images():
    right = torch.ones(3, 4, 6), torch.ones(3), torch.zeros(3, 9, 1, 1)
    ScatteringTables(**tables()).write(*right)
    assert bool((right[-1] > 0).any())
    for place, wrong in [
        (0, torch.ones(3, 6, 4)),
        (0, torch.ones(2, 4, 6)),
        (1, torch.ones(2)),
        (2, torch.zeros(3, 8, 1, 1)),
        (2, torch.zeros(3, 9, 2, 1)),
        (2, torch.zeros(3, 9, 1, 3)),
    ]:
        given = [*right[:place], wrong, *right[place + 1 :]]
        with pytest.raises(ValueError, match="malformed"):
            ScatteringTables(**tables()).write(*given)
    with pytest.raises(TypeError):
        ScatteringTables(**tables()).write(right[0].double(), *right[1:])
