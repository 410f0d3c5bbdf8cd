"""Nothing that numpy, scipy, scikit-learn or torch warn of reaches users.

The gate lets numpy warn inside of the package (conftest.py), which users never see.
"""

import warnings

import numpy as np
import pytest

from skconvgp import BinaryEncoder, NystromCompletedGP, selection_report
from skconvgp.kernels import rbf
from tests.helpers.estimators import digits
from tests.helpers.public import CALLS, CASES, offers

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
# Most of what overflows is refused at once; other sizes are tried beside the gate.
SIZES = [
    1e140,
    1e300,
    *(
        pytest.param(one, marks=pytest.mark.slow)
        for one in (1e30, 1e-30, 1e-140, 1e-300)
    ),
]
TARGETS = [
    1e30,
    *(
        pytest.param(one, marks=pytest.mark.slow)
        for one in (1e140, 1e300, 1e-30, 1e-300)
    ),
]


def use(case, X, y, new):
    """Fit a case, and call all of its methods; what it refuses is an error of ours."""
    try:
        fitted = case.new().fit(X, y)
    except (ValueError, FloatingPointError):
        return
    for name, call in CALLS.items():
        if offers(fitted, name):
            try:
                call(fitted, X, y, new)
            except ValueError:
                continue


def foreign(caught):
    """Return the warnings that are not of this package or of convergence."""
    own = (UserWarning,)  # those of the package derive from it
    return [str(one.message) for one in caught if not issubclass(one.category, own)]


@pytest.mark.parametrize("size", SIZES)
@every_case
def test_samples_of_any_size(case, size):
    X, y, new = case.data()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use(case, X * size, y, new * size)
    assert not foreign(caught)


@pytest.mark.parametrize("size", TARGETS)
@every_case
def test_targets_and_labels_of_any_size(case, size):
    X, y, new = case.data()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use(case, X, (y + 0.5) * size, new)
    assert not foreign(caught)


@pytest.mark.parametrize(
    "dtype",
    [
        "int64",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("float32", "uint64")),
    ],
)
@every_case
def test_labels_of_any_type(case, dtype):
    X, y, new = case.data()
    largest = 2**62 if dtype != "float32" else 1e37
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use(case, X, (y > 0).astype(dtype) * np.array(largest, dtype), new)
    assert not foreign(caught)


def labels_like_numbers():
    """Return labels that a cast to whole numbers cannot hold."""
    X, y = digits(24)
    return X, y * 1e30


@pytest.mark.filterwarnings("error")
def test_what_looks_for_whole_numbers_is_quiet():
    X, y = labels_like_numbers()
    BinaryEncoder(4, max_iter=1, early_stopping=False).fit(X, y)
    selection_report([rbf(2.0)], X, y, n_batches=1)
    gp = NystromCompletedGP(rbf(2.0), n_landmarks=12, random_state=0)
    with pytest.raises(ValueError, match="Unknown label type"):
        gp.fit(X, y)
    with pytest.raises(ValueError, match="Unknown label type"):
        gp.partial_fit(X, y, classes=y)
    gp.fit(X, y % 2e30 > 0.0)
    with pytest.raises(ValueError, match=r"mix of|Unknown label"):
        gp.score(X, y)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_users_see_nothing_of_numpy(monkeypatch):
    """The setting of users, whatever they have set outside."""
    monkeypatch.setattr("skconvgp._ambient.ARITHMETIC", {"all": "ignore"})
    for case in CASES[::9]:
        X, y, new = case.data()
        with np.errstate(all="raise"):
            use(case, X * 1e300, y, new)
            use(case, X * 1e-300, y, new)
