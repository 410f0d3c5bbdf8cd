"""Rules about the sizes of numbers, each tried on every case of one list."""

import numpy as np
import pytest
from sklearn.base import is_regressor

from skconvgp import gram_matrix
from skconvgp.kernels import rbf
from tests.helpers.public import CASES, fitted_and_results

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:.* explains .*:UserWarning",
    "ignore:Features of the completion exceed:UserWarning",
)
REGRESSIONS = [case for case in CASES if is_regressor(case.estimator)]
POWERS = [-496, 490]  # about 1e-150 and 1e147; powers of 2 change no rounding

# Transformers that are proportional to images.
WITHOUT_SQUARES = {"Downsample", "ScatteringTransform"}


def assert_scaled(found, expected, unit, n_targets):
    """Compare results of targets times a unit with those of the targets."""
    assert list(found) == list(expected)
    for name in set(found) - {"score"}:  # which compares with unscaled targets
        for one, other in zip(found[name], expected[name], strict=True):
            if other.dtype.kind not in "fc":
                np.testing.assert_array_equal(one, other, err_msg=name)
                continue
            in_unit = one / unit
            if name in ("log_marginal_likelihood", "elbo"):
                in_unit = one + n_targets * np.log(unit)  # densities
            np.testing.assert_allclose(
                in_unit, other, rtol=1e-9, atol=1e-100, err_msg=name
            )


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("case", REGRESSIONS, ids=lambda case: case.name)
def test_units_of_targets_are_those_of_results(case, power):
    X, y, _ = case.data()
    unit = 2.0**power
    _, expected = fitted_and_results(case)
    found = case.results(case.new().fit(X, unit * y))
    assert_scaled(found, expected, unit, len(y))


@pytest.mark.parametrize("case", REGRESSIONS, ids=lambda case: case.name)
def test_units_of_targets_may_be_out_of_range_of_the_solve(case):
    if "solve_dtype" not in case.estimator.get_params():
        return
    X, y, _ = case.data()
    model, unit = case.new(solve_dtype="float32"), 2.0**133
    expected = case.results(model.fit(X, y))
    found = case.results(model.fit(X, unit * y))
    assert_scaled(found, expected, unit, len(y))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("size", [1e-30, 1e20])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_images_of_any_size_have_finite_results_or_are_refused(case, size):
    X, y, new = case.data()
    model = case.new()
    try:
        model.fit(X * size, y)
    except ValueError as refusal:
        assert "scale X" in str(refusal)  # noqa: PT017  (refusals are right, too)
        return
    for name in ("predict_proba", "predict", "transform"):
        if hasattr(model, name):
            assert np.isfinite(getattr(model, name)(new * size)).all()


@pytest.mark.parametrize("size", [1e-170, 1e170])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_samples_whose_squares_are_no_numbers_are_refused(case, size):
    X, y, new = case.data()
    if case.estimator.__class__.__name__ in WITHOUT_SQUARES:
        found = case.new().fit(X * size).transform(new * size)
        np.testing.assert_allclose(found / size, case.fit().transform(new), rtol=1e-12)
        return
    with pytest.raises(ValueError, match=r"squares of such numbers .*scale X to"):
        case.new().fit(X * size, y)


def test_functions_refuse_samples_whose_squares_are_no_numbers():
    with pytest.raises(ValueError, match="squares of such numbers vanish"):
        gram_matrix(rbf(), np.full((3, 2), 1e-170))
