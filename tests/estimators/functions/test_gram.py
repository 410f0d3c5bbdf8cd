"""gram_matrix and gram_diag."""

import numpy as np
import pytest

from skconvgp import gram_diag, gram_matrix
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import dot_product, matern, rbf
from tests.helpers.estimators import digits, tiny_network

SMALL = {"memory_budget": "60 KB"}  # several ragged tiles a side


def test_values_are_those_of_the_formula():
    X = np.random.default_rng(0).normal(size=(30, 4))
    Y = np.random.default_rng(1).normal(size=(17, 4))
    np.testing.assert_allclose(gram_matrix(dot_product(0.5), X, Y), X @ Y.T + 0.5)
    squares = ((X[:, None] - Y) ** 2).sum(-1)
    np.testing.assert_allclose(
        gram_matrix(rbf(2.0), X, Y), np.exp(-squares / 8.0), rtol=1e-10
    )
    np.testing.assert_allclose(
        gram_matrix(matern(2.0, nu=0.5), X, Y), np.exp(-np.sqrt(squares) / 2.0)
    )


@pytest.mark.parametrize("kernel", [rbf(2.0), rbf()])
def test_samples_may_be_a_view_or_read_only(kernel):
    X = np.random.default_rng(0).normal(size=(9, 2))
    gram = gram_matrix(kernel, X)
    np.testing.assert_array_equal(gram_matrix(kernel, X[::-1]), gram[::-1, ::-1])
    X.flags.writeable = False
    np.testing.assert_array_equal(gram_matrix(kernel, X), gram)


@pytest.mark.parametrize("settings", [{}, SMALL])
def test_matrix_of_one_set_is_exactly_symmetric(settings):
    X = digits(25)[0]
    gram = gram_matrix(tiny_network(), X, **settings)
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_allclose(np.diag(gram), gram_diag(tiny_network(), X))
    assert np.linalg.eigvalsh(gram)[0] > 0.0


@pytest.mark.parametrize("settings", [{}, SMALL])
@pytest.mark.parametrize("n_others", [1, 7, 30])
def test_other_set_may_have_another_size(n_others, settings):
    X, others = digits(12)[0], digits(n_others, start=100)[0]
    cross = gram_matrix(tiny_network(), X, others, **settings)
    both = gram_matrix(tiny_network(), np.concatenate([X, others]))
    assert cross.shape == (12, n_others)
    np.testing.assert_allclose(cross, both[:12, 12:], rtol=1e-12)
    back = gram_matrix(tiny_network(), others, X, **settings)
    np.testing.assert_allclose(back, cross.T, rtol=1e-12)


@pytest.mark.parametrize("others", [None, 7])
def test_out_is_filled_and_returned(others):
    X = digits(12)[0]
    Y = None if others is None else digits(others, start=50)[0]
    expected = gram_matrix(tiny_network(), X, Y, dtype="float64")
    out = np.full(expected.shape, np.nan)
    settings = SMALL | {"dtype": "float64"}
    assert gram_matrix(tiny_network(), X, Y, out=out, **settings) is out
    np.testing.assert_allclose(out, expected, rtol=1e-12)


def test_out_may_be_a_memory_map(tmp_path):
    X = digits(20)[0]
    out = np.lib.format.open_memmap(
        tmp_path / "gram.npy", mode="w+", dtype=np.float64, shape=(20, 20)
    )
    settings = SMALL | {"dtype": "float64"}
    assert gram_matrix(tiny_network(), X, out=out, **settings) is out
    out.flush()
    expected = gram_matrix(tiny_network(), X, dtype="float64")
    np.testing.assert_allclose(np.load(tmp_path / "gram.npy"), expected, rtol=1e-12)


def test_out_may_be_float32_and_a_view():
    X = digits(9)[0]
    expected = gram_matrix(tiny_network(), X)
    large = np.zeros((9, 18), dtype=np.float32)
    gram_matrix(tiny_network(), X, out=large[:, ::2])
    np.testing.assert_allclose(large[:, ::2], expected, rtol=1e-6)
    np.testing.assert_array_equal(large[:, 1::2], 0.0)


@pytest.mark.parametrize(
    "out", [np.zeros((9, 8)), np.zeros((9, 9), int), np.zeros((3, 9))], ids=str
)
def test_wrong_out_is_refused_with_the_shape_needed(out):
    with pytest.raises(ValueError, match=r"`out`.*\(9, 9\)"):
        gram_matrix(tiny_network(), digits(9)[0], out=out)


@pytest.mark.parametrize("strides", [(0, 8), (8, 0), (8, 8), (64, 8), (4, 72)])
def test_out_whose_values_share_memory_is_refused(strides):
    out = np.lib.stride_tricks.as_strided(np.zeros(81), (9, 9), strides)
    with pytest.raises(ValueError, match=r"`out` must .* a place for each value"):
        gram_matrix(tiny_network(), digits(9)[0], out=out)


@pytest.mark.parametrize("budget", ["1 MiB", "64 MiB"])
def test_out_that_holds_samples_is_refused(budget):
    X = np.random.default_rng(0).random((300, 300))
    Y, before = X[:, ::-1].copy(), X.copy()
    settings = {"image_shape": None, "memory_budget": budget}
    told = pytest.raises(ValueError, match=r"`out` must not share memory with X or Y")
    for one, other, out in ((X, None, X), (Y, X, X), (X, Y, X.T)):
        with told:
            gram_matrix(dot_product(), one, other, out=out, **settings)
    np.testing.assert_array_equal(X, before)
    out = X.copy()
    gram_matrix(dot_product(), X, out=out, **settings)
    np.testing.assert_allclose(out, 1.0 + X @ X.T, rtol=1e-12)


def test_out_may_have_any_order_of_memory():
    X, Y = digits(9)[0], digits(4, start=50)[0]
    expected = gram_matrix(tiny_network(), X, Y, dtype="float64")
    for out in (
        np.zeros((9, 4), order="F"),
        np.zeros((4, 18)).T[::2],
        np.zeros((9, 2, 4))[:, 1],
    ):
        gram_matrix(tiny_network(), X, Y, out=out, dtype="float64")
        np.testing.assert_array_equal(out, expected)
    out = np.lib.stride_tricks.as_strided(np.zeros(4), (1, 4), (0, 8))
    gram_matrix(tiny_network(), X[:1], Y, out=out, dtype="float64")
    alone = gram_matrix(tiny_network(), X[:1], Y, dtype="float64")
    np.testing.assert_array_equal(out, alone)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype_is_that_of_the_result(dtype):
    X = digits(9)[0]
    gram = gram_matrix(tiny_network(), X, dtype=dtype)
    assert gram.dtype == gram_diag(tiny_network(), X, dtype=dtype).dtype == dtype
    np.testing.assert_allclose(gram, gram_matrix(tiny_network(), X), rtol=1e-5)


@pytest.mark.parametrize("n_jobs", [1, 2, -1])
def test_jobs_do_not_change_the_matrix(n_jobs):
    X = digits(30)[0]
    gram = gram_matrix(tiny_network(), X, n_jobs=n_jobs)
    np.testing.assert_allclose(gram, gram_matrix(tiny_network(), X), rtol=1e-12)
    np.testing.assert_array_equal(gram, gram.T)


def test_diag_takes_all_forms_of_images():
    X = digits(9)[0]
    diag = gram_diag(tiny_network(), X)
    assert diag.shape == (9,)
    np.testing.assert_array_equal(gram_diag(tiny_network(), X[:, 0]), diag)
    rows = X.reshape(9, -1)
    np.testing.assert_array_equal(
        gram_diag(tiny_network(), rows, image_shape=(8, 8)), diag
    )


def test_samples_of_another_size_are_refused():
    X = digits(5)[0]
    with pytest.raises(ValueError, match=r"Y has 49 values.*X has 64"):
        gram_matrix(tiny_network(), X, X[:, :, :7, :7])
    with pytest.raises(ValueError, match=r"\(1, 4, 16\).*\(1, 8, 8\)"):
        gram_matrix(tiny_network(), X, X.reshape(5, 1, 4, 16))


@pytest.mark.parametrize("kernel", [None, "rbf", rbf, object()])
@pytest.mark.parametrize("function", [gram_matrix, gram_diag])
def test_what_is_no_kernel_is_refused(function, kernel):
    with pytest.raises(ValueError, match=r"`kernel` must be a kernel of skconvgp"):
        function(kernel, [[0.0], [1.0]])


def test_samples_in_front_of_the_kernel_are_refused():
    with pytest.raises(ValueError, match="got samples; X comes behind it"):
        gram_matrix([[0.0], [1.0]], tiny_network())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(value):
    good, bad = [[0.0], [1.0]], [[0.0], [value]]
    with pytest.raises(ValueError, match="Input X contains"):
        gram_matrix(rbf(1.0), bad)
    with pytest.raises(ValueError, match="Input Y contains"):
        gram_matrix(rbf(1.0), good, bad)
    with pytest.raises(ValueError, match="Input X contains"):
        gram_diag(rbf(1.0), bad)


def test_overflow_is_found_before_any_tile(monkeypatch):
    def fail(*args):
        raise AssertionError("a tile was computed")

    # A pair is measured; what counts is that no tile follows.
    monkeypatch.setattr("skconvgp.engine._evaluate.evaluate_block", fail)
    with pytest.raises(ValueError, match="1 of 3 samples is not finite"):
        gram_matrix(dot_product(), [[1.0], [1e200], [2.0]])


def test_matrix_that_does_not_fit_is_refused_before_any_work(monkeypatch):
    def fail(*args):
        raise AssertionError("the kernel was evaluated")

    monkeypatch.setattr("skconvgp.engine._devices.free_memory", lambda device: 1000)
    monkeypatch.setattr("skconvgp.backends.ReferenceBackend.prepare", fail)
    X = digits(12)[0]
    with pytest.raises(TileMemoryError, match=r"1152 bytes.*1000 bytes") as caught:
        gram_matrix(tiny_network(), X, device="cpu", backend="torch")
    for remedy in ("`out`", "fewer samples", "float32"):
        assert remedy in str(caught.value)
