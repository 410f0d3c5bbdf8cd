"""ImageClassifier and ImageRegressor: sums of parts, their choices and their limits."""

import re
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from skconvgp import (
    ConvNetGPClassifier,
    ImageClassifier,
    ImagePart,
    ImageRegressor,
    PatchGPClassifier,
    PatchGPRegressor,
    gram_matrix,
)
from skconvgp.estimators._dictionary import COLOR_PATCHES, SCATTERED_PATCHES
from skconvgp.estimators._image_parts import read_parts
from skconvgp.estimators.settings._checks import Given
from skconvgp.exceptions import ImageShapeWarning
from skconvgp.image_maps import ChannelComponents, Upright
from skconvgp.kernels import FlipAverage, PatchKernel, convnet, rbf
from tests.helpers.deviations import plain
from tests.helpers.estimators import DensePosterior, blobs, digits
from tests.helpers.fused import needs_extension
from tests.helpers.lines import show_all
from tests.helpers.tolerances import assert_close

USUAL_GREY = {
    "patches of pixels",
    "network on scattering, J=1",
    "network on scattering of upright images, J=1",
}
NETWORK, VECTORS = convnet(1, 3), rbf(2.0)
SMALL = PatchKernel(patch_size=5, location_lengthscale=0.75)  # of images of 6 x 6
N, N_NEW = 20, 6


class Centred(TransformerMixin, BaseEstimator):
    """Subtracts the mean of the images of a fit, and counts these."""

    def fit(self, X, y=None):
        self.mean_, self.count_ = X.mean(0), len(X)
        return self

    def transform(self, X):
        return X - self.mean_


def data():
    images, labels = digits(N + N_NEW)
    targets = np.stack([labels, images.mean((1, 2, 3))], 1)
    return images[:N], targets[:N], images[N:]


def covariances(images, weights, *, is_mirrored):
    """Return the weighted sum of both parts for training images, then new ones."""
    both = np.concatenate([images[:N], images[:N, :, :, ::-1]])
    seen = images - (both if is_mirrored else images[:N]).mean(0)
    terms = []
    for kernel, shown, flipped in (
        (NETWORK, seen, seen[..., ::-1]),
        (VECTORS, images, images[..., ::-1]),
    ):
        plain = {"backend": "torch", "dtype": "float64"}
        gram = gram_matrix(kernel, shown, **plain)
        if is_mirrored:
            gram = (gram + gram_matrix(kernel, shown, flipped, **plain)) / 2.0
        train = gram[:N, :N]
        terms.append(gram / (np.diag(train).mean() - train.mean()))
    return weights[0] * terms[0] + weights[1] * terms[1]


@pytest.mark.parametrize("is_mirrored", [False, True])
def test_predictions_are_those_of_the_dense_sum(is_mirrored):
    images, targets, new = data()
    gp = ImageRegressor(
        [(Centred(), NETWORK), VECTORS],
        part_weights=[1.0, 3.0],
        flips=is_mirrored,
        noise_variance=0.1,
        backend="torch",
        dtype="float64",
    ).fit(images, targets)
    every = np.concatenate([images, new])
    whole = covariances(every, [0.25, 0.75], is_mirrored=is_mirrored)
    scaled = (targets - targets.mean(0)) / targets.std(0)
    dense = DensePosterior(whole[:N, :N], scaled, 0.1)
    mean, std = gp.predict(new, return_std=True)
    expected = dense.mean(whole[N:, :N]) * targets.std(0) + targets.mean(0)
    assert_close(mean, expected, kind="solve")
    variances = np.diag(dense.cov(whole[N:, :N], whole[N:, N:]))
    assert_close(
        plain(gp, std), np.sqrt(variances)[:, None] * targets.std(0), kind="solve"
    )
    np.testing.assert_allclose(gp.weights_, [0.25, 0.75])
    assert gp.fit_report_.is_mirrored is is_mirrored


def test_transformers_are_fitted_to_training_images_only():
    images, targets, new = data()
    transformer = Centred()
    gp = ImageRegressor([(transformer, NETWORK)], flips=False).fit(images, targets)
    alone = gp.predict(new[:2])
    gp.predict(new[2:] * 1.1)
    np.testing.assert_array_equal(gp.predict(new[:2]), alone)
    ((fitted, kernel),) = gp.parts_
    assert fitted.count_ == N
    assert kernel == NETWORK
    assert not hasattr(transformer, "mean_")


def test_default_finds_digits():
    images, labels = digits(300)
    gp = ImageClassifier(random_state=0).fit(images[:150], labels[:150])
    assert gp.score(images[150:], labels[150:]) > 0.9
    assert gp.fit_report_.is_mirrored is False  # digits are not their mirror images
    assert len(gp.fit_report_.part_weights) == 8
    assert gp.weights_.sum() == pytest.approx(1.0)
    assert "without mirror images" in str(gp.fit_report_)
    assert "Scattering(n_scales=1, n_angles=8, order=2)" in repr(gp.parts_)


def test_default_sees_colours_in_many_ways():
    images = digits(70)[0]
    # Red digits or green ones: classes that brightness alone does not tell.
    colour = np.arange(len(images)) % 2
    colours = np.array([[1.0, 0.2, 0.1], [0.2, 1.0, 0.1]])[colour]
    images = images * colours[:, :, None, None] + 0.1
    gp = ImageClassifier(random_state=0).fit(images[:40], colour[:40])
    assert gp.score(images[40:], colour[40:]) == 1.0
    assert len(gp.fit_report_.part_weights) == 5
    for side, count in ((4, 3), (8, 5), (16, 8), (32, 10), (64, 12)):
        assert len(read_parts(Given.of(gp), (3, side, side), N)) == count


def usual_parts(shape, n=N):
    """Return parts by their names."""
    parts = read_parts(Given.of(ImageClassifier()), shape, n)
    named = {part.name: part for part in parts}
    assert len(named) == len(parts)
    return named


def test_usual_parts_see_images_upright_and_colours_as_components():
    def firsts(shape):
        views = [part.fit_view for part in usual_parts(shape).values()]
        found = {(v.scattering.n_scales, v.fit_first) for v in views if v is not None}
        return sorted(found, key=str)

    upright, components = Upright.fit, ChannelComponents.fit
    grey = {(scales, first) for scales in (1, 2) for first in (None, upright)}
    assert firsts((1, 28, 28)) == sorted(grey, key=str)
    colour = {(1, None), (1, components), (2, None), (3, None), (3, components)}
    assert firsts((3, 32, 32)) == sorted(colour, key=str)
    assert firsts((3, 64, 96)) == sorted(colour | {(4, None)}, key=str)


def test_usual_parts_know_places_of_the_maps_of_their_scales_or_none():
    parts, share = usual_parts((3, 32, 48)), SCATTERED_PATCHES[1]
    lengths = {
        name: getattr(p.kernel, "location_lengthscale", None)
        for name, p in parts.items()
    }
    assert lengths["scattering, J=2"] == pytest.approx(12 * share)
    assert lengths["scattering of components of colours, J=1"] == pytest.approx(
        24 * share
    )
    assert lengths["patches of pixels"] == pytest.approx(48 * COLOR_PATCHES[1])
    anywhere = [name for name in lengths if "anywhere" in name]
    assert len(anywhere) == 4
    assert all(lengths[name] is None for name in anywhere)


def test_costs_of_parts_follow_the_number_of_images_and_pixels():
    few, many, large = (
        usual_parts(shape, n)
        for shape, n in (((1, 32, 32), 100), ((1, 32, 32), 200), ((1, 64, 64), 100))
    )
    for name, part in few.items():
        assert 0.0 < part.cost < many[name].cost
        if name in large:
            assert part.cost < large[name].cost
        assert part.shared_cost == many[name].shared_cost
    network = "network on scattering, J=2"
    assert many[network].cost == pytest.approx(2.0 * few[network].cost)


def test_a_network_costs_as_much_as_patches_and_more_with_channels():
    # With a thousand images, by measurements on one core.
    parts = usual_parts((1, 28, 28), 1000)
    ratio = parts["network on pixels"].cost / parts["patches of pixels"].cost
    assert 0.3 < ratio < 3.0
    grey, colour = (
        usual_parts((channels, 32, 32), 1000)["network on scattering, J=2"].cost
        for channels in (1, 3)
    )
    assert 1.0 < colour / grey < 3.0


def test_views_and_features_are_counted_before_any_work(monkeypatch):
    images, labels = digits(60)
    # 21 matrices, with mirror images: the rest is what the parts see and keep.
    matrices = 8 * 21 * 50**2
    gp = ImageClassifier(random_state=0)
    for more, is_alone in ((10_000, True), (100_000_000, False)):
        monkeypatch.setattr(
            "skconvgp.processes._plan.free_memory",
            lambda device, more=more: matrices + more,
        )
        gp.fit(images[:50], labels[:50])
        assert ("views and features" in gp.fit_report_.parts_reason) is is_alone


def test_a_mirror_image_is_predicted_alike():
    images, labels = digits(60)
    gp = ImageClassifier(flips=True, random_state=0).fit(images[:50], labels[:50])
    one, two = (gp.predict_proba(x) for x in (images[50:], images[50:, :, :, ::-1]))
    np.testing.assert_allclose(one, two, atol=1e-4)
    assert "averaged over mirror images" in str(gp.fit_report_)
    for weight, name in zip(
        gp.fit_report_.part_weights, gp.fit_report_.part_names, strict=True
    ):
        used, _, left_out = str(gp.fit_report_).partition("left out: ")
        line = f"\n             {weight:.2f} {name} ("
        assert (line in used) is (weight > 0.0)
        assert (f"{name}," in f"{left_out.splitlines()[0]},") is (weight == 0.0)


def test_vectors_have_a_kernel_for_vectors():
    X, y = blobs(40)
    with pytest.warns(ImageShapeWarning, match="read as vectors"):
        gp = ImageClassifier().fit(X[:30], y[:30])
    other = ConvNetGPClassifier(rbf()).fit(X[:30], y[:30])
    np.testing.assert_allclose(
        gp.predict_proba(X[30:]), other.predict_proba(X[30:]), rtol=1e-6
    )
    assert "vectors" in gp.fit_report_.parts_reason
    with pytest.raises(ValueError, match="was read as a vector"):
        ImageClassifier("patches").fit(X, y)
    assert gp.fit_report_.parts_reason in str(gp.fit_report_)


def test_patches_are_alone_where_the_sum_is_too_dear(monkeypatch):
    images, labels = digits(60)
    images = images[:, :, 1:7, 1:7]
    reason = "the Gram matrix needs more"
    monkeypatch.setattr(
        "skconvgp.estimators._image_landmarks.missing_memory", lambda *_: reason
    )
    gp = ImageClassifier(random_state=0).fit(images[:50], labels[:50])
    assert reason in gp.fit_report_.parts_reason
    assert gp.fit_report_.part_weights == (1.0, 0.0, 0.0)
    alone = PatchGPClassifier(SMALL, n_locations=2, random_state=0)
    alone.fit(images[:50], labels[:50])
    np.testing.assert_allclose(
        gp.predict_proba(images[50:]), alone.predict_proba(images[50:]), rtol=1e-5
    )
    gp.partial_fit(images[50:], labels[50:])
    assert gp.fit_report_.n_samples == 60


@pytest.mark.parametrize("flips", [True, False])
def test_batches_of_patches_alone_are_those_of_the_estimators_of_patches(flips):
    images, labels = digits(60)
    images = images[:, :, 1:7, 1:7]
    kernel = FlipAverage(SMALL) if flips else SMALL
    settings = {"n_locations": 2, "random_state": 0}
    gp = ImageClassifier("patches", flips=flips, random_state=0)
    other = PatchGPClassifier(kernel, **settings)
    for part in (slice(30), slice(30, 50)):
        gp.partial_fit(images[part], labels[part], range(10))
        other.partial_fit(images[part], labels[part], range(10))
    new = images[50:]
    np.testing.assert_allclose(gp.predict_proba(new), other.predict_proba(new))
    assert gp.fit_report_.is_mirrored is flips
    gp = ImageRegressor("patches", flips=flips, random_state=0)
    other = PatchGPRegressor(kernel, **settings)
    for part in (slice(30), slice(30, 50)):
        gp.partial_fit(images[part], labels[part])
        other.partial_fit(images[part], labels[part])
    np.testing.assert_allclose(gp.predict(new), other.predict(new))


def test_only_sums_over_images_can_be_added_to():
    images, labels = digits(20)
    assert not hasattr(ImageClassifier(), "partial_fit")
    assert not hasattr(ImageRegressor([SMALL]), "partial_fit")
    assert hasattr(ImageClassifier("patches"), "partial_fit")
    assert hasattr(ImageClassifier([SMALL], n_landmarks=5), "partial_fit")
    gp = ImageClassifier([NETWORK], flips=False).fit(images, labels)
    gp.set_params(parts="patches")  # the fitted sum stays one
    with pytest.raises(AttributeError) as error:
        gp.partial_fit(images, labels)
    assert "parts='patches' or a number as `n_landmarks`" in str(error.value.__cause__)


def test_patches_alone_decide_about_mirror_images():
    images = np.random.default_rng(0).uniform(size=(60, 1, 6, 6))
    left, right = (half.mean((1, 2, 3)) for half in np.split(images, 2, axis=3))
    for targets, is_symmetric in ((left + right, True), (left - right, False)):
        gp = ImageRegressor("patches", random_state=0).fit(images, targets)
        assert gp.fit_report_.is_mirrored is is_symmetric


def test_patches_of_colours_have_mirror_images():
    images = np.random.default_rng(0).uniform(size=(24, 3, 4, 4))
    gp = ImageRegressor("patches", flips=True, random_state=0)
    gp.fit(images[:20], images[:20, 0, 0, 0])
    one, two = (gp.predict(x) for x in (images[20:], images[20:, ..., ::-1]))
    np.testing.assert_allclose(one, two, rtol=1e-4)


@pytest.mark.parametrize(
    ("size", "seen"),
    [
        ((96, 96), (96, 96)),
        ((100, 100), (96, 96)),
        ((192, 48), (192, 48)),
        ((64, 150), (63, 147)),
        ((250, 250), (96, 96)),
        ((7, 300), (5, 192)),
        ((384, 45), (192, 23)),  # not two pixels, of which one would be left
    ],
)
def test_large_images_are_reduced_to_means_of_areas(size, seen):
    rng = np.random.default_rng(0)
    large = rng.uniform(size=(24, 1, *size))
    targets = large[:, 0, : size[0] // 2].mean((1, 2))
    of_areas = (expected_areas(*lengths) for lengths in zip(size, seen, strict=True))
    rows, columns = of_areas
    small = rows @ large @ columns.T
    settings = {"flips": False, "random_state": 0, "noise_variance": 0.01}
    warns = pytest.warns(UserWarning, match=re.escape(f"reduced to {seen[0]} x "))
    with warns if max(size) > 224 else nullcontext():
        gp = ImageRegressor([VECTORS], **settings).fit(large[:20], targets[:20])
    side = max(1.0, np.sqrt(np.prod(size)) / 96, max(size) / 192)
    assert gp.pool_ == pytest.approx(side, rel=1e-15)
    other = ImageRegressor([VECTORS], **settings).fit(small[:20], targets[:20])
    np.testing.assert_allclose(
        gp.predict(large[20:]), other.predict(small[20:]), rtol=1e-5
    )


def expected_areas(n_pixels, n_areas):
    """Return the shares of pixels in areas, each of which is cut into many pieces."""
    pieces = np.arange(n_pixels * n_areas)
    shares = np.zeros((n_areas, n_pixels))
    np.add.at(shares, (pieces // n_pixels, pieces // n_areas), 1.0 / n_pixels)
    return shares


def test_one_image_of_each_class_is_enough():
    images, labels = digits(100)
    first = np.array([np.flatnonzero(labels == label)[0] for label in range(10)])
    for chosen in (first, first[:2]):
        gp = ImageClassifier(random_state=0).fit(images[chosen], labels[chosen])
        assert gp.score(images[chosen], labels[chosen]) == 1.0
    usual = [4 if name in USUAL_GREY else 1 for name in gp.fit_report_.part_names]
    np.testing.assert_allclose(gp.fit_report_.part_weights, np.array(usual) / 17)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"parts": []}, "'parts'"),
        ({"parts": "pixels"}, "'parts'.*'patches'"),
        ({"parts": [(None, NETWORK, 3)]}, "'parts'"),
        ({"parts": [(NETWORK, NETWORK)]}, "'parts'"),
        ({"parts": [NETWORK], "part_weights": [0.5, 0.5]}, "'part_weights'.*1 finite"),
        ({"part_weights": [-1.0, 2.0]}, "'part_weights'"),
        ({"part_weights": [0.0, 0.0]}, "'part_weights'"),
        ({"part_weights": "equal"}, "'part_weights'"),
        ({"flips": "never"}, "'flips'"),
        ({"flips": 1}, "'flips'"),
        ({"likelihood": "dirichlet"}, "share one noise"),
        ({"likelihood": "softmax"}, r"variational.*use likelihood='gaussian'\."),
        (
            {"parts": [(StandardScaler(), rbf())]},
            r"StandardScaler\(\) of `parts` refused images of shape \(40, 1, 8, 8\)",
        ),
    ],
)
def test_settings_that_cannot_be_used(settings, message):
    with pytest.raises(ValueError, match=message):
        ImageClassifier(**settings).fit(*digits(20))


def test_draws_need_a_fit():
    images, labels = digits(30)
    with pytest.raises(NotFittedError):
        ImageClassifier().sample_y(images)
    gp = ImageClassifier([NETWORK], flips=False).fit(images, labels)
    assert gp.sample_y(images[:3], 2).shape == (3, 10, 2)


def test_settings_can_be_searched():
    images, labels = digits(60)
    grid = {"flips": [True, False], "part_weights": ["auto", [1.0, 0.0]]}
    gp = ImageClassifier([NETWORK, VECTORS], noise_variance=0.01)
    search = GridSearchCV(gp, grid, cv=2).fit(images, labels)
    assert search.best_score_ > 0.5
    again = clone(search.best_estimator_)
    assert again.get_params() == search.best_estimator_.get_params()


def test_parts_have_names_of_their_own():
    def names(parts, shape):
        return [p.name for p in read_parts(Given.of(ImageClassifier(parts)), shape, N)]

    assert names("auto", (1, 4, 4)) == [
        "patches of pixels",
        "patches of pixels anywhere",
        "network on pixels",
    ]
    assert names("auto", (5, 1, 1)) == ["rbf()"]
    own = [NETWORK, (Centred(), VECTORS), ImagePart("mine", Centred(), VECTORS)]
    assert names(own, (1, 8, 8)) == ["convnet", "rbf on Centred", "mine"]
    assert names([own[2], "auto"], (1, 4, 4)) == ["mine", *names("auto", (1, 4, 4))]


@pytest.mark.parametrize(("flips", "sizes"), [(True, {N}), ("auto", {N // 2, N})])
def test_a_fit_shows_how_many_parts_are_done(flips, sizes, monkeypatch, capfd):
    show_all(monkeypatch)
    monkeypatch.setattr("skconvgp.processes.fits._parts_fit.JUDGED_IMAGES", N // 2)
    images, targets, _ = data()
    gp = ImageRegressor(
        [NETWORK, VECTORS], part_weights=[1.0, 3.0], flips=flips, verbose=1
    )
    gp.fit(images, targets[:, 0])
    lines = capfd.readouterr().err.splitlines()
    assert all(line.startswith("fit: ") for line in lines)
    (told,) = (line for line in lines if line.startswith("fit: parts, "))
    assert told.endswith(": 0.75 rbf (1 ms); 0.25 convnet (1 ms)")
    lines.remove(told)
    # Both parts of the images that judge, if something is chosen, and of all images.
    names = re.findall(r"left: (part \d of 2: .*? images)", "\n".join(lines))
    assert len(set(names)) == 2 * len(sizes)
    assert {int(name.split()[-2]) for name in names} == sizes
    shares = [int(line.split("%")[0].split()[-1]) for line in lines]
    assert shares == sorted(shares)
    assert shares[-1] == 100


@needs_extension
def test_precision_is_that_of_a_part():
    images, labels = digits(60)
    small = 1e-4 * images
    small[:8] = small[0]  # those in front do not decide
    gp = ImageRegressor([NETWORK], flips=False).fit(small, labels * 1.0)
    assert gp.dtype_ == "float64"
    assert "samples differ by" in gp.fit_report_.dtype_reason
    # No part is the default network of other estimators, on pixels.
    gp.set_params(parts=[VECTORS]).fit(images + 1e3, labels * 1.0)
    assert gp.fit_report_.dtype_reason == ""


def test_parts_tell_settings_that_have_no_effect():
    images, labels = digits(12)
    idle = convnet(depth=1, kernel_size=3, radius=4)
    with pytest.warns(UserWarning, match="`radius`=4 has no effect"):
        ImageRegressor([idle], flips=False).fit(images, labels * 1.0)


def test_there_is_no_kernel_to_set():
    with pytest.raises(ValueError, match="Invalid parameter 'kernel' for estimator"):
        ImageClassifier().set_params(kernel__depth=2)
