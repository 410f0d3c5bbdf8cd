"""check_precision: a table of errors that are within their bounds, or are not."""

import dataclasses
import math
from contextlib import contextmanager

import pytest
import torch

from skconvgp import check_precision
from skconvgp.backends import ReferenceBackend
from skconvgp.backends import choose_backend as choose
from skconvgp.exceptions import NotPSDError
from tests.helpers.gpu import coarse_products
from tests.helpers.tiles import WatchedBackend

PRECISION = "skconvgp.estimators.functions._precision"
PRODUCT, SINGLE = "float32 matrix product", "float32 covariances"
DOUBLE, FACTOR = "float64 covariances", "float64 Cholesky factor"


def too_large(report):
    return {
        name for name in report.bounds if not report.errors[name] <= report.bounds[name]
    }


def ten_bits(values):
    """Return float32 numbers as TF32 holds them, with 10 bits of the mantissa."""
    rounded = (values.view(torch.int32) + 2**12).bitwise_and(-(2**13))
    return rounded.view(torch.float32)


class Doctored(WatchedBackend):
    """Changes images before they are prepared, and tiles after they are computed."""

    def __init__(self, backend, before, after):
        super().__init__(backend)
        self.before, self.after = before, after

    def prepare(self, images):
        return super().prepare(self.before(images))

    def cross(self, one, two):
        return self.after(super().cross(one, two))

    def gram(self, one):
        return self.after(super().gram(one))


def same(values):
    return values


@pytest.fixture
def doctor(monkeypatch):
    """Return a function that lets the backend err in its own way."""

    def doctor(before=same, after=same):
        def chosen(*args):
            choice = choose(*args)

            @dataclasses.dataclass
            class Chosen:
                name = choice.name

                def tiles(self):
                    return Doctored(ReferenceBackend(choice.kernel), before, after)

            return Chosen()

        monkeypatch.setattr(f"{PRECISION}.choose_backend", chosen)

    return doctor


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_this_machine_is_precise(device):
    report = check_precision(device)
    assert report.ok
    assert too_large(report) == set()
    assert (
        report.errors.keys()
        == report.bounds.keys()
        == {PRODUCT, SINGLE, DOUBLE, FACTOR}
    )
    assert 1e-9 < report.errors[PRODUCT] < 1e-6
    assert 1e-9 < report.errors[SINGLE] < 1e-6


def test_bounds_on_the_cpu():
    bounds = check_precision("cpu").bounds
    assert bounds == {PRODUCT: 2e-6, SINGLE: 2e-6, DOUBLE: 1e-11, FACTOR: 1e-11}


def test_torch_is_precise_too(doctor):
    doctor()
    assert check_precision("cpu").ok


def check_loosely():
    """Return the report of a device of which the user is warned."""
    with pytest.warns(UserWarning, match="cpu is less precise than this package rel"):
        return check_precision("cpu")


def test_covariances_of_coarse_images_are_found_out(doctor):
    doctor(before=lambda x: ten_bits(x) if x.dtype == torch.float32 else x)
    report = check_loosely()
    assert too_large(report) == {SINGLE}
    assert not report.ok


def test_covariances_computed_in_float32_throughout_are_found_out(doctor):
    doctor(after=lambda values: values.to(torch.float32).to(values.dtype))
    assert too_large(check_loosely()) == {DOUBLE}


def test_covariances_that_are_no_numbers_are_found_out(doctor):
    doctor(after=lambda values: values * torch.nan)
    report = check_loosely()
    assert math.isnan(report.errors[DOUBLE])
    assert too_large(report) == {SINGLE, DOUBLE}


def test_products_in_tf32_are_found_out(monkeypatch):
    def multiply(one, two):
        return ten_bits(one) @ ten_bits(two)

    monkeypatch.setattr(f"{PRECISION}._product", multiply)
    assert too_large(check_loosely()) == {PRODUCT}


def test_a_setting_that_shortens_the_products_of_others_is_told(monkeypatch):
    is_ours = []

    @contextmanager
    def full_precision(device):
        is_ours.append(True)
        try:
            yield
        finally:
            is_ours.pop()

    def multiply(one, two):
        return one @ two if is_ours else ten_bits(one) @ ten_bits(two)

    monkeypatch.setattr("skconvgp.engine._devices.full_precision", full_precision)
    monkeypatch.setattr(f"{PRECISION}._product", multiply)
    with pytest.warns(UserWarning, match="torch is set to shorten products"):
        report = check_precision("cpu")
    assert report.ok


def test_a_coarse_factor_is_found_out(monkeypatch):
    def factor(matrix, shift):
        coarse = (matrix + torch.diag(shift)).to(torch.float32)
        return torch.linalg.cholesky(coarse).to(torch.float64), 0.0

    monkeypatch.setattr(f"{PRECISION}.shifted_cholesky_", factor)
    assert too_large(check_loosely()) == {FACTOR}


def test_no_factor_at_all_is_found_out(monkeypatch):
    def fail(matrix, shift):
        raise NotPSDError

    monkeypatch.setattr(f"{PRECISION}.shifted_cholesky_", fail)
    report = check_loosely()
    assert report.errors[FACTOR] == math.inf
    assert not report.ok


def test_report_is_a_table(doctor):
    doctor(after=lambda values: values * 1.001)
    lines = repr(check_loosely()).splitlines()
    assert lines[0].startswith("cpu, ")
    assert [line.split("  ")[-1] for line in lines[1:]] == [
        "ok",
        "TOO LARGE",
        "TOO LARGE",
        "ok",
    ]
    assert "1.0e-03  2.0e-06" in lines[2]


def test_report_is_read_only():
    with pytest.raises(dataclasses.FrozenInstanceError):
        check_precision("cpu").device = "cuda"


@pytest.mark.parametrize("device", ["gpu", 0, None])
def test_wrong_device_is_named(device):
    with pytest.raises(ValueError, match="'device' parameter of check_precision"):
        check_precision(device)


def test_absent_gpu_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=r"device='cuda'.*not on this machine"):
        check_precision("cuda")


@pytest.mark.gpu
def test_gpu_is_precise_even_where_torch_was_told_to_hurry():
    shortens = pytest.warns(UserWarning, match="torch is set to shorten products")
    with coarse_products(), shortens:
        report = check_precision("cuda")
    assert report.ok, report
