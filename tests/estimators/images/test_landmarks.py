"""ImageClassifier and ImageRegressor by landmarks: sums over any number of images."""

import pickle

import numpy as np
import pytest
import torch

from skconvgp import ImageClassifier, ImageRegressor
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import PatchKernel, convnet, rbf
from skconvgp.processes.basis import _landmark_parts
from skconvgp.processes.fits import _image_rows
from tests.helpers.estimators import digits
from tests.helpers.fused import needs_extension

PATCHES = PatchKernel(rbf(3.0), patch_size=4, location_lengthscale=3.0)
PARTS = [convnet(1, 3), PATCHES, rbf(2.0)]
N, N_NEW, NOISE = 50, 12, 0.02
FIXED = {"part_weights": [0.3, 0.4, 0.3], "noise_variance": NOISE, "random_state": 0}
DOUBLE = {"backend": "torch", "dtype": "float64"}
LIMIT = "skconvgp.estimators._image_landmarks.MOST_SUMMED"


def data(n=N):
    """Return images, two targets that follow from them, and new images."""
    images, _ = digits(n + N_NEW)
    directions = np.random.default_rng(0).normal(size=(64, 2))
    targets = np.sin(images.reshape(len(images), -1) @ directions)
    return images[:n], targets[:n], images[n:]


def regressor(n_landmarks, **settings):
    settings = {"flips": False} | FIXED | DOUBLE | settings
    return ImageRegressor(PARTS, n_landmarks=n_landmarks, **settings)


def predictions(gp, new):
    """Return means and deviations of the latent functions."""
    return np.stack(gp.predict_latent(new, return_std=True))


def test_more_images_than_an_exact_sum_allows_are_no_less_accurate(monkeypatch):
    images, labels = digits(1200)
    monkeypatch.setattr(LIMIT, 150)
    monkeypatch.setattr("skconvgp.estimators._image_landmarks.LANDMARKS", 150)
    gp, scores = ImageClassifier(PARTS[:2], flips=False, random_state=0), []
    gp.set_params(part_weights=[0.5, 0.5], noise_variance=0.01)
    for n in (75, 150, 151, 300, 600):
        gp.fit(images[:n], labels[:n])
        assert hasattr(gp, "landmark_indices_") == (n > 150)
        scores.append(gp.score(images[700:], labels[700:]))
    error = np.sqrt(0.1 * 0.9 / 500)  # standard error of an accuracy of 90 %
    assert (np.diff(scores) > -error / 2.0).all()
    assert scores[-1] > scores[1] + error


def features_of(gp, images):
    """Return features (n, m) by dense algebra, and variances (n,), of images."""
    process, resources = gp._process, gp._resources()
    run = resources.run(resources.placement(0))
    rows, unit = images.reshape(len(images), -1), process.model.mean_diag
    whole = process.basis.covariance(rows, run, unit).numpy()
    marks = gp.landmark_indices_
    root = np.linalg.cholesky(whole[np.ix_(marks, marks)])
    return np.linalg.solve(root, whole[marks]).T, np.diag(whole)


@pytest.mark.parametrize("flips", [False, True])
def test_landmarks_of_all_images_are_the_exact_sum(flips, monkeypatch):
    images, targets, new = data()
    exact = regressor(N, flips=flips).fit(images, targets)
    assert exact.fit_report_.n_landmarks == 0
    assert not hasattr(exact, "landmark_indices_")
    monkeypatch.setattr(LIMIT, N - 1)
    gp = regressor("auto", flips=flips).fit(images, targets)
    assert gp.fit_report_.n_landmarks == N
    assert gp.fit_report_.observed_fraction == 1.0
    np.testing.assert_allclose(predictions(gp, new), predictions(exact, new), atol=1e-7)
    evidence = exact.log_marginal_likelihood()
    assert gp.log_marginal_likelihood() == pytest.approx(evidence, rel=1e-7)
    np.testing.assert_allclose(gp.amplitude_, exact.amplitude_, rtol=1e-6)
    both = (one.loo_predict(return_std=True) for one in (gp, exact))
    np.testing.assert_allclose(*map(np.stack, both), atol=1e-6)


def test_more_landmarks_come_closer_to_the_exact_sum():
    images, targets, new = data()
    exact = predictions(regressor("auto").fit(images, targets), new)
    errors = []
    for n_landmarks in (5, 20, 45):
        gp = regressor(n_landmarks).fit(images, targets)
        errors.append(np.abs(predictions(gp, new) - exact).mean((1, 2)))
    assert (np.diff(errors, axis=0) < 0.0).all()


@pytest.mark.parametrize("flips", [False, True])
def test_predictions_and_left_out_ones_are_those_of_dense_features(flips):
    images, targets, new = data()
    gp = regressor(20, flips=flips, normalize_y=False, amplitude=1.0)
    gp.fit(images, targets)
    features, variances = features_of(gp, np.concatenate([images, new]))

    def predict(given, wanted):
        """Return the means and variances at wanted images, of observations."""
        own, at = features[given], features[wanted]
        precision = np.eye(20) + own.T @ own / NOISE
        mean = at @ np.linalg.solve(precision, own.T @ targets[given] / NOISE)
        var = np.sum(at * np.linalg.solve(precision, at.T).T, 1)
        return mean, var + variances[wanted] - np.sum(at**2, 1)

    every = np.arange(N)
    mean, var = predict(every, np.arange(N, N + N_NEW))
    found = gp.predict_latent(new, return_std=True)
    np.testing.assert_allclose(found[0], mean, atol=1e-6)
    np.testing.assert_allclose(found[1], np.sqrt(var)[:, None].repeat(2, 1), atol=1e-6)
    mean, std = gp.loo_predict(return_std=True)
    for i in range(N):
        expected, var = predict(np.delete(every, i), [i])
        np.testing.assert_allclose(mean[i], expected[0], atol=1e-6)
        np.testing.assert_allclose(std[i], np.sqrt(var + NOISE).repeat(2), atol=1e-6)


def test_groups_are_left_out_as_wholes():
    images, targets, _ = data()
    groups = np.arange(N) // 3
    gp = regressor(20, normalize_y=False).fit(images, targets, groups=groups)
    features, _ = features_of(gp, images)
    mean = gp.loo_predict()
    for group in set(groups):
        given, wanted = groups != group, groups == group
        own = features[given]
        precision = np.eye(20) + own.T @ own / NOISE
        coefficients = np.linalg.solve(precision, own.T @ targets[given] / NOISE)
        np.testing.assert_allclose(
            mean[wanted], features[wanted] @ coefficients, atol=1e-6
        )


def test_landmarks_are_samples_of_which_none_is_left_out(monkeypatch):
    images, labels = digits(150)
    monkeypatch.setattr(_image_rows, "KEPT_IMAGES", 40)
    gp = ImageClassifier(PARTS, n_landmarks=30, flips=False, **FIXED)
    gp.fit(images, labels)
    marks = gp.landmark_indices_
    assert len(set(marks)) == 30
    assert set(labels[marks]) == set(range(10))  # spread over classes
    np.testing.assert_array_equal(gp.X_train_, images[marks].reshape(30, -1))
    left_out = gp._leave_out(is_subset_enough=True)
    assert len(left_out.indices) == 40
    assert not set(left_out.indices) & set(marks)
    again = gp.fit(images, labels).landmark_indices_
    np.testing.assert_array_equal(again, marks)
    other = gp.set_params(random_state=1).fit(images, labels).landmark_indices_
    assert set(other) != set(marks)


def test_few_other_images_are_kept_beside_landmarks(monkeypatch):
    images, targets, _ = data()
    monkeypatch.setattr(_image_rows, "KEPT_IMAGES", 10)
    gp = regressor(N - 4).fit(images, targets)
    left_out = gp._leave_out(is_subset_enough=True)
    assert len(left_out.indices) == 10
    assert set(np.delete(np.arange(N), gp.landmark_indices_)) < set(left_out.indices)


@pytest.mark.parametrize("flips", [False, True])
def test_blocks_of_images_of_other_sizes_are_the_same(flips, monkeypatch):
    images, targets, new = data()
    whole = regressor(20, flips=flips).fit(images, targets)
    sizes = []
    for basis in ("_parts_basis", "_patch_basis"):
        monkeypatch.setattr(
            f"skconvgp.processes.basis.{basis}.stream_rows",
            lambda *_: sizes.append(7) or 7,
        )
    blocks = regressor(20, flips=flips).fit(images, targets)
    assert sizes
    one, other = predictions(whole, new), predictions(blocks, new)
    np.testing.assert_allclose(other, one, atol=1e-6)


@pytest.mark.parametrize("flips", [False, True])
def test_further_images_are_added_to_sums(flips):
    images, targets, new = data(80)
    settings = {"flips": flips, "normalize_y": False}
    gp = regressor(20, **settings).partial_fit(images[:40], targets[:40])
    first = gp.landmark_indices_
    gp.partial_fit(images[40:60], targets[40:60])
    gp.partial_fit(images[60:], targets[60:])
    assert gp.fit_report_.n_samples == 80
    assert gp.fit_report_.n_pairs == 20 * 21 / 2 + 60 * 20
    np.testing.assert_array_equal(gp.landmark_indices_, first)
    features, _ = features_of(gp, np.concatenate([images, new]))
    own, noise = features[:80], gp.noise_variance_
    inverse = np.linalg.inv(np.eye(20) + own.T @ own / noise)
    mean = features[80:] @ inverse @ own.T @ targets / noise
    np.testing.assert_allclose(gp.predict(new), mean, atol=1e-6)
    left_out = gp._leave_out(is_subset_enough=True)
    assert len(left_out.indices) == 80
    shares = np.sum((own @ inverse) * own, 1) / noise
    rest = targets - own @ inverse @ own.T @ targets / noise
    expected = targets - rest / (1.0 - shares)[:, None]
    np.testing.assert_allclose(left_out.mean, expected[left_out.indices], atol=1e-6)


def test_batches_of_labels_are_one_fit():
    images, labels = digits(160)
    gp = ImageClassifier(PARTS, n_landmarks=30, **FIXED, **DOUBLE, flips=False)
    gp.partial_fit(images[:90], labels[:90], range(10))
    begun = pickle.loads(pickle.dumps(gp))
    for batch in (slice(90, 100), slice(100, 150)):
        gp.partial_fit(images[batch], labels[batch])
    begun.partial_fit(images[90:150], labels[90:150])
    new = images[150:]
    np.testing.assert_allclose(
        gp.predict_proba(new), begun.predict_proba(new), atol=1e-6
    )
    np.testing.assert_allclose(predictions(gp, new), predictions(begun, new), atol=1e-6)


def test_weights_are_repetitions():
    images, targets, new = data()
    weights = np.where(np.arange(N) % 3 == 0, 2.0, 1.0)
    again = np.flatnonzero(weights == 2.0)
    settings = {"part_weights": "auto", "noise_variance": "loo", "flips": "auto"}
    one = regressor(20, **settings).fit(images, targets, weights)
    repeated = np.concatenate([images, images[again]])
    other = regressor(20, **settings)
    other.fit(repeated, np.concatenate([targets, targets[again]]))
    np.testing.assert_array_equal(one.landmark_indices_, other.landmark_indices_)
    assert one.fit_report_.part_weights == other.fit_report_.part_weights
    assert one.noise_variance_ == other.noise_variance_
    found = predictions(other, new)
    np.testing.assert_allclose(found, predictions(one, new), atol=1e-6)


def test_weights_flips_and_noise_are_chosen():
    images, labels = digits(150)
    gp = ImageClassifier(n_landmarks=60, random_state=0).fit(images[:120], labels[:120])
    assert gp.score(images[120:], labels[120:]) > 0.8
    assert gp.fit_report_.is_mirrored is False
    exact = ImageClassifier(random_state=0).fit(images[:120], labels[:120])
    assert gp.fit_report_.part_weights == exact.fit_report_.part_weights
    assert "60 landmarks, by n_landmarks=60" in str(gp.fit_report_)
    assert "by landmarks" in str(gp.fit_report_)


def test_a_pickled_fit_predicts_and_grows_alike():
    images, targets, new = data(80)
    gp = regressor(20, flips=True).fit(images[:60], targets[:60])
    other = pickle.loads(pickle.dumps(gp))
    np.testing.assert_array_equal(predictions(other, new), predictions(gp, new))
    for one in (gp, other):
        one.partial_fit(images[60:], targets[60:])
    np.testing.assert_allclose(predictions(other, new), predictions(gp, new), atol=1e-9)


@needs_extension
@pytest.mark.parametrize("flips", [False, True])
def test_single_precision_is_enough_for_many_images(flips, monkeypatch):
    images, targets, new = data()
    double, single = regressor(20, flips=flips), regressor(20, flips=flips)
    double.set_params(parts=PARTS[:2], part_weights="auto").fit(images, targets)
    weights, read = double.fit_report_.part_weights, []
    # Deviations of chosen weights are larger.
    double.set_params(part_weights=weights).fit(images, targets)
    lifted = _landmark_parts._lifted

    def noted(cross, lift_map):
        read.append((cross.dtype, lift_map.dtype))
        return lifted(cross, lift_map)

    monkeypatch.setattr(_landmark_parts, "_lifted", noted)
    monkeypatch.setattr(_landmark_parts, "MANY_IMAGES", N)
    monkeypatch.setattr(_image_rows, "MANY_IMAGES", N)
    single.set_params(parts=PARTS[:2], part_weights=weights)
    single.set_params(backend="fused", dtype="float32").fit(images, targets)
    assert (torch.float32, torch.float32) in read
    one, other = predictions(double, new), predictions(single, new)
    np.testing.assert_allclose(other, one, atol=1e-3)


@pytest.mark.parametrize("flips", [False, True])
def test_solves_may_be_in_single_precision(flips):
    images, targets, new = data()
    double, single = (
        regressor(20, flips=flips, solve_dtype=dtype, noise_variance=0.1)
        for dtype in ("float64", "float32")
    )
    for gp in (double, single):
        gp.fit(images[:40], targets[:40]).partial_fit(images[40:], targets[40:])
    one, other = predictions(double, new), predictions(single, new)
    np.testing.assert_allclose(other, one, atol=1e-3)
    assert np.isfinite(single.sample_y(new, 2)).all()


def test_threads_change_nothing(monkeypatch):
    images, targets, new = data()
    found = []
    monkeypatch.setattr("skconvgp._threads.LARGE", 0.0)
    for n_threads in (1, 2):
        before = torch.get_num_threads()
        torch.set_num_threads(n_threads)
        try:
            gp = regressor(20, flips=True).fit(images, targets)
            found.append(predictions(gp, new))
        finally:
            torch.set_num_threads(before)
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)


def test_draws_and_derivatives_follow_the_means():
    images, targets, new = data()
    gp = regressor(20, normalize_y=False).fit(images, targets)
    step = 1e-5 * np.random.default_rng(0).normal(size=new.shape)
    slope = (gp.predict(new + step) - gp.predict(new - step)) / 2.0
    gradient = gp.latent_gradient(new)
    expected = np.sum(gradient * step[:, None], axis=(2, 3, 4))
    np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-10)
    draws = gp.sample_y(new[:3], 4000, random_state=0)
    mean, std = predictions(gp, new[:3])
    np.testing.assert_allclose(draws.mean(2), mean, atol=0.1)
    np.testing.assert_allclose(draws.std(2), std, rtol=0.1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_landmarks": 0}, "'n_landmarks'.*'auto' or an int >= 1"),
        ({"n_landmarks": 2.5}, "'n_landmarks'"),
        ({"n_landmarks": "all"}, "'n_landmarks'"),
        ({"n_landmarks": None}, "'n_landmarks'"),
        ({"n_landmarks": True}, "'n_landmarks'"),
        ({"n_landmarks": 5, "parts": "patches"}, "'auto' with parts='patches'"),
    ],
)
def test_numbers_of_landmarks_that_cannot_be_used(settings, message):
    with pytest.raises(ValueError, match=message):
        ImageClassifier(**settings).fit(*digits(20))


def test_a_number_as_large_as_that_of_the_different_images_is_exact():
    images, targets, new = data()
    repeated, same = np.concatenate([images, images]), np.concatenate([targets] * 2)
    gp = regressor(N).fit(repeated, same)
    assert gp.fit_report_.n_landmarks == 0
    assert not hasattr(gp, "partial_fit")
    exact = regressor("auto").fit(repeated, same)
    np.testing.assert_array_equal(predictions(gp, new), predictions(exact, new))


def test_a_small_first_batch_is_told():
    images, targets, new = data()
    with pytest.warns(UserWarning, match=r"has 10 different ones, .*n_landmarks=20"):
        gp = regressor(20).partial_fit(images[:10], targets[:10])
    gp.partial_fit(images[10:], targets[10:])
    assert len(gp.landmark_indices_) == 10
    assert gp.fit_report_.n_samples == N
    assert predictions(gp, new).shape == (2, N_NEW, 2)


def test_classes_that_come_after_landmarks_are_told():
    images, labels = digits(80)
    first = labels < 9
    gp = ImageClassifier(PARTS, n_landmarks=20, flips=False, **FIXED)
    gp.partial_fit(images[first], labels[first], range(10))
    with pytest.warns(UserWarning, match=r"None of the 20 landmarks is of.*\[9\]"):
        gp.partial_fit(images[~first], labels[~first])
    with pytest.warns(UserWarning, match=r"None of the 4 landmarks.*`n_landmarks`"):
        gp.set_params(n_landmarks=4).fit(images, labels)


def test_memory_that_is_missing_is_told_before_the_work(monkeypatch):
    images, targets, _ = data()
    for name in ("_parts_fit", "_parts_landmarks"):
        monkeypatch.setattr(f"skconvgp.processes.fits.{name}.JUDGED_IMAGES", 10)
    # Six matrices of the landmarks, and their products with all images, twice.
    free = 8 * (6 * 30**2 + 2 * 30 * N)
    monkeypatch.setattr("skconvgp.engine._devices.free_memory", lambda device: free)
    with pytest.raises(TileMemoryError, match=r"by 40 landmarks.*lower `n_landmarks`"):
        regressor(40).fit(images, targets)
    gp = regressor(20).set_params(parts=PARTS[::2], part_weights=[0.5, 0.5])
    assert gp.fit(images, targets).fit_report_.n_landmarks == 20


@pytest.mark.parametrize("why", ["count", "memory"])
def test_landmarks_are_as_many_as_memory_allows(why, monkeypatch):
    images, labels = digits(60)
    place, n = "skconvgp.estimators._image_landmarks", 60
    if why == "count":
        monkeypatch.setattr(f"{place}.MOST_SUMMED", n - 1)
    monkeypatch.setattr(f"{place}.LANDMARKS", 50)
    monkeypatch.setattr(f"{place}.LEAST_LANDMARKS", 10)
    for name in ("_parts_fit", "_parts_landmarks"):
        monkeypatch.setattr(f"skconvgp.processes.fits.{name}.JUDGED_IMAGES", 20)
    most, asked = 40, []

    def missing(size, resources, what, dtype=None):
        asked.append(size.held)
        if what.startswith("those of"):
            return "not enough" if size.held > limit else ""
        return "not enough for a matrix"

    monkeypatch.setattr(f"{place}.missing_memory", missing)
    limit = 0
    gp = ImageRegressor(PARTS, **FIXED, flips=False, n_landmarks=most)
    gp.fit(images, labels * 1.0)  # an int is a wish that memory does not change
    assert len(gp.landmark_indices_) == most
    assert not asked
    gp = ImageClassifier(random_state=0, flips=False).fit(images, labels)
    assert "patches alone" in gp.fit_report_.parts_reason
    limit = sorted(asked[-6:])[2]
    gp.fit(images, labels)
    assert 10 < len(gp.landmark_indices_) < 50
    reason = {"count": "at most 59 images", "memory": "not enough for a matrix"}[why]
    assert reason in gp.fit_report_.parts_reason
    assert "not enough" in gp.fit_report_.parts_reason
