"""Figures of the benchmarks of images: pairs of models and sizes, bytes, and copies."""

import math
import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

if not (Path(__file__).parents[1] / "benchmarks").exists():
    pytest.skip("the benchmarks are not installed", allow_module_level=True)

from benchmarks import gem, many_images, small_data
from benchmarks.data import Samples
from benchmarks.measure import measure_images, packed, pickled_bytes, unpacked
from benchmarks.small_data.paired import lost, paired


def row(model, draw, error, data="a", n_train=100, n_test=10, **more):
    place = {"data": data, "n_train": n_train, "draw": draw, "model": model}
    return place | {"error": error, "n_test": n_test} | more


def test_differences_of_models_are_paired_by_draw():
    rows = [row("one", draw, error) for draw, error in enumerate((0.1, 0.3, 0.5))]
    rows += [row("two", draw, error) for draw, error in enumerate((0.2, 0.2, 0.1))]
    rows += [row("two", 3, 0.9), row("one", 0, 0.4, data="b")]
    found = paired(rows, "one", "two", "error")
    assert list(found) == [("a", 100)]
    differences = [-0.1, 0.1, 0.4]
    mean, error, n_draws = found["a", 100]
    assert mean == pytest.approx(np.mean(differences))
    assert error == pytest.approx(np.std(differences, ddof=1) / math.sqrt(3))
    assert n_draws == 3
    back = paired(rows, "two", "one", "error")["a", 100]
    assert back.mean == pytest.approx(-mean)


def test_pairs_are_judged_on_the_same_test_images():
    long = row("one", 0, 0.5, n_test=30, first={"error": 0.1, "n_test": 10})
    rows = [long, row("two", 0, 0.3)]
    assert paired(rows, "one", "two", "error")["a", 100].mean == pytest.approx(-0.2)
    short = [long, row("two", 0, 0.3, n_test=20)]
    assert not paired(short, "one", "two", "error")
    assert not paired(rows, "one", "two", "log_loss")


def test_a_set_is_lost_where_another_model_is_clearly_better():
    errors = {"clear": (0.3, 0.31, 0.32), "noisy": (0.1, 0.5, 0.3)}
    errors["better"] = (0.1, 0.11, 0.12)
    rows = []
    for data, values in errors.items():
        for draw, error in enumerate(values):
            rows += [row("ours", draw, error, data), row("peer", draw, 0.2, data)]
    assert lost(rows, "ours", ["peer"], 100) == ["clear"]
    assert lost(rows, "ours", ["peer"], 500) == []
    single = [row("ours", 0, 0.9), row("peer", 0, 0.1)]
    assert lost(single, "ours", ["peer"], 100) == []  # of one draw nothing is clear
    ((name, count, word, limit),) = small_data.targets(
        [one | {"model": one["model"].replace("ours", small_data.OURS)} for one in rows]
    )
    assert "clear" in name
    assert (count, word, limit) == (1, "at most", 1)


def test_the_worst_fall_is_in_standard_errors_of_paired_test_images():
    rng = np.random.default_rng(0)
    right = {n: rng.random((2, 50)) < p for n, p in ((10, 0.5), (20, 0.8), (40, 0.6))}
    rows = [
        row("ours", draw, 0.0, n_train=n, n_test=50, right=packed(values[draw]))
        for n, values in right.items()
        for draw in range(2)
    ]
    differences = (right[20].astype(float) - right[40]).mean(0)
    expected = differences.mean() / (differences.std(ddof=1) / math.sqrt(50))
    assert many_images.worst_fall(rows) == pytest.approx(expected)
    assert expected > 0.0
    gain = [one for one in rows if one["n_train"] < 40]
    assert many_images.worst_fall(gain) < 0.0
    assert math.isnan(many_images.worst_fall(rows[:2]))
    same = [one | {"n_train": n} for one in rows[:2] for n in (10, 20)]
    assert many_images.worst_fall(same) == 0.0


@pytest.mark.parametrize("n", [1, 8, 13])
def test_truth_values_are_read_as_they_were_written(n):
    values = np.random.default_rng(n).random(n) < 0.5
    np.testing.assert_array_equal(unpacked(packed(values), n), values)
    np.testing.assert_array_equal(unpacked(packed(values), n // 2), values[: n // 2])


def test_bytes_of_a_model_are_those_of_its_file():
    for model in (np.zeros((300, 300)), {"a": [1, 2]}):
        expected = len(pickle.dumps(model, pickle.HIGHEST_PROTOCOL))
        assert pickled_bytes(model) == expected


class Nearest:
    """A classifier that says what it was told."""

    def fit(self, X, y, groups=None):
        self.X, self.y, self.groups = X, y, groups
        return self

    def predict_proba(self, X):
        distances = np.square(X[:, None] - self.X[None]).sum((2, 3, 4))
        return np.eye(2)[self.y[distances.argmin(1)]] * 0.8 + 0.1


def test_groups_reach_a_classifier_that_takes_them():
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 1, 3, 3)), np.arange(40) % 2
    X[y == 1] += 0.5
    some = Samples(X[:20], y[:20], X[20:], y[20:], groups=np.arange(20) // 4)
    nearest = Nearest()
    found = measure_images(nearest, some, 10, 1e9, keeps=True)
    np.testing.assert_array_equal(nearest.groups, some.groups)
    assert found["has_groups"]
    right = nearest.predict_proba(some.X_test).argmax(1) == some.y_test
    np.testing.assert_array_equal(unpacked(found["right"], 20), right)
    assert found["error"] == pytest.approx(1.0 - right.mean())
    assert found["model_bytes"] == pickled_bytes(nearest)
    without = Samples(*(getattr(some, name) for name in ("X", "y", "X_test", "y_test")))
    assert not measure_images(nearest, without, 10, 1e9)["has_groups"]
    assert nearest.groups is None


def test_near_copies_are_those_of_high_correlation():
    rng = np.random.default_rng(0)
    others, X = rng.random((30, 3, 4, 4)), rng.random((6, 3, 4, 4))
    X[1] = 0.3 + 0.5 * others[7]  # paler
    X[3] = others[29] + 0.02 * rng.normal(size=(3, 4, 4))
    X[4], others[5] = 0.5, 0.5  # of one value: like no other
    found = gem.has_copy(X, others)
    usual = np.delete(np.arange(30), 5)
    for i in (0, 1, 2, 3, 5):
        values = [np.corrcoef(X[i].ravel(), others[j].ravel())[0, 1] for j in usual]
        assert found[i] == (max(values) > gem.NEAR)
    assert found.tolist() == [False, True, False, True, False, False]


def test_parts_have_the_next_images_of_each_class(monkeypatch):
    monkeypatch.setattr(gem, "EACH", 2)
    y = np.array([0, 1, 1, 0, 0, 1, 1, 0, 1])
    X = np.arange(9.0).reshape(9, 1, 1, 1)
    whole = Samples(X, y, X, y)
    keeps = y == 0
    parts = [gem.fifty(whole, part, keeps) for part in (0, 1)]
    assert [part.X.ravel().tolist() for part in parts] == [[0, 1, 3, 2], [4, 5, 7, 6]]
    assert parts[0].y.tolist() == [0, 1, 0, 1]
    assert parts[0].X_test.ravel().tolist() == [0, 3, 4, 7]


def test_models_that_cannot_be_measured_are_left_out(monkeypatch):
    told, drawn = [], SimpleNamespace(X=np.zeros((5, 1, 2, 2)), y=np.zeros(5))
    record = SimpleNamespace(
        missing=lambda part, **place: True,
        rows=lambda part, **wanted: [],
        leave_out=lambda what, reason: told.append((what, reason)),
    )
    monkeypatch.setattr(small_data, "draw_images", lambda *place: drawn)
    options = SimpleNamespace(models=["SVC", "CNN, same seconds"], most_seconds=1.0)
    small_data.measure_models(record, ("digits", 100, 0), options)
    (first, reason), (second, other) = told
    assert first == "digits 100 0, SVC"
    assert "5 images" in reason
    assert second == "digits 100 0, CNN, same seconds"
    assert "ImageClassifier" in other
