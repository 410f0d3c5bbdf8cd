"""A rule over the list: numbers out of range are refused in our words, and at once."""

import pytest

from skconvgp import gram_gradient, gram_matrix
from tests.helpers.errors import is_ours
from tests.helpers.estimators import digits
from tests.helpers.public import CASES, KERNELS

pytestmark = pytest.mark.filterwarnings("ignore")
HUGE = 10**400
VALUES = {"nan": float("nan"), "an int of 401 digits": HUGE, "text": "1e400"}
VALUES["a ragged list"] = [[1.0, 2.0], [3.0]]
# Of these, a huge number is taken: the work goes on until it converges or is stopped,
# and all patches there are take a while.
ENDLESS = {"max_iter", "n_restarts", "n_steps", "n_inducing"}
# What is written is not of interest.
LEFT_OUT = {"cache_dir", "verbose", "steps", "estimators"}


def settings_of(part):
    """Yield the names of all settings, each with the class that has it."""
    params = part.get_params(deep=True)
    for name in params:
        *path, last = name.split("__")
        owner = params["__".join(path)] if path else part
        if last not in LEFT_OUT and hasattr(owner, "get_params"):
            yield name, (type(owner), last)


def each_once(parts):
    """Yield the settings of each part, without those of classes that came before."""
    seen = set()
    for part in parts:
        names = [(name, of) for name, of in settings_of(part) if of not in seen]
        seen |= {of for _, of in names}
        yield [name for name, _ in names]


def assert_refused_or_done(call, name, value):
    """Call, and allow no error but one of ours."""
    found = None
    try:
        call()
    except Exception as error:
        found = error
    assert found is None or is_ours(found), (name, value, found)


ESTIMATORS = each_once([case.estimator for case in CASES])


@pytest.mark.parametrize(
    ("case", "names"),
    [
        pytest.param(case, names, id=case.name)
        for case, names in zip(CASES, ESTIMATORS, strict=True)
        if names
    ],
)
def test_estimators_refuse_numbers_out_of_range(case, names):
    X, y, new = case.data()
    for name in names:
        for value in VALUES.values():
            if value == HUGE and name.split("__")[-1] in ENDLESS:
                continue

            def fit_and_use(name=name, value=value):
                fitted = case.new(**{name: value}).fit(X, y)
                for method in ("predict", "transform"):
                    if hasattr(fitted, method):
                        getattr(fitted, method)(new)

            assert_refused_or_done(fit_and_use, name, value)


@pytest.mark.parametrize(
    ("kernel", "names"),
    [
        pytest.param(kernel, names, id=repr(kernel))
        for kernel, names in zip(KERNELS, each_once(KERNELS), strict=True)
        if names
    ],
)
def test_kernels_refuse_numbers_out_of_range(kernel, names):
    X, _ = digits(3)
    for name in names:
        for value in (*VALUES.values(), 10**30, 1e300, -1, 10**9):

            def compute(name=name, value=value):
                changed = kernel.replace(**{name: value})
                gram_matrix(changed, X)
                gram_gradient(changed, X)

            assert_refused_or_done(compute, name, value)
