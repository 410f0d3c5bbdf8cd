"""What estimators for patches learn, and what they refuse to learn."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skconvgp import ConvNetGPRegressor, PatchGPClassifier, PatchGPRegressor
from skconvgp.flows import LBFGS
from skconvgp.kernels import FlipAverage, PatchKernel, rbf

SIDE, PATCH = 7, 2
PLACES = SIDE - PATCH + 1


def images(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 1, SIDE, SIDE))


def centre_only(X):
    """Return targets that depend on the four pixels in the middle."""
    return np.sin(X[:, 0, 2:4, 2:4]).sum((1, 2))


def kernel(**settings):
    settings = {"location_lengthscale": None} | settings
    return PatchKernel(patch_size=PATCH, **settings)


def fitted(spec, X, y, **settings):
    settings = {"n_inducing": 16, "random_state": 0} | settings
    return PatchGPRegressor(spec, **settings).fit(X, y)


@pytest.mark.parametrize(
    "criterion", [None, "loo", "evidence", pytest.param("elbo", marks=pytest.mark.slow)]
)
def test_weights_find_the_pixels_that_matter(criterion):
    X = images(200)
    y = centre_only(X)
    gp = fitted(kernel(weights="learned"), X[:150], y[:150], optimizer=criterion)
    plain = fitted(kernel(), X[:150], y[:150])
    weights = np.abs(gp.kernel_.weights).reshape(PLACES, PLACES)
    is_middle = np.zeros((PLACES, PLACES), dtype=bool)
    is_middle[1:4, 1:4] = True
    assert weights[is_middle].mean() > 2.5 * weights[~is_middle].mean()
    assert np.mean(weights**2) == pytest.approx(1.0)
    assert plain.score(X[150:], y[150:]) < 0.5 < gp.score(X[150:], y[150:])


@pytest.mark.parametrize("criterion", ["loo", "evidence"])
def test_hyperparameters_are_learned_and_reported(criterion):
    X = images(40)
    start = kernel(location_lengthscale=2.0)
    gp = fitted(start, X, centre_only(X), optimizer=criterion)
    result, learned = gp.optimizer_result_, gp.kernel_
    assert result.rho < result.start_rho
    assert result.values["location_lengthscale"] == learned.location_lengthscale
    assert result.values["base__lengthscale"] == learned.base.lengthscale
    assert learned.location_lengthscale != 2.0
    assert learned.weights is None


def test_held_hyperparameters_stay():
    X = images(30)
    spec = PatchKernel(
        rbf(2.0, lengthscale_bounds="fixed"), patch_size=2, location_lengthscale=2.0
    )
    gp = fitted(spec, X, centre_only(X), optimizer="loo")
    assert gp.optimizer_result_.labels == ("location_lengthscale", "noise_variance")
    assert gp.kernel_.base.lengthscale == 2.0
    alone = fitted(
        PatchKernel(
            rbf(2.0), patch_size=2, weights="learned", location_lengthscale=None
        ),
        X,
        centre_only(X),
    )
    assert alone.kernel_.base.lengthscale == 2.0
    assert alone.optimizer_result_.labels == ("noise_variance",)


def test_inducing_patches_are_learned():
    X = images(120)
    spec, settings = kernel(location_lengthscale=2.0), {"n_inducing": 3}
    first = fitted(spec, X, centre_only(X), **settings)
    learned = fitted(spec, X, centre_only(X), inducing="learned", **settings)
    assert learned.inducing_patches_.shape == first.inducing_patches_.shape
    assert not np.allclose(learned.inducing_patches_, first.inducing_patches_)
    result = learned.optimizer_result_
    assert result.rho < result.start_rho
    assert learned.kernel_ == first.kernel_


def weighted_and_whole():
    return kernel(weights="learned") + 0.05 * rbf(4.0)


def test_a_weighted_kernel_and_one_of_whole_images_are_learned_as_one():
    X = images(120)
    y = centre_only(X)
    gp = fitted(weighted_and_whole(), X, y, n_inducing=8, optimizer="loo")
    result, learned = gp.optimizer_result_, gp.kernel_
    weighted, scaled = learned.parts
    assert result.rho < result.start_rho
    assert result.values == pytest.approx(
        {
            "term0__base__lengthscale": weighted.base.lengthscale,
            "term1__kernel__lengthscale": scaled.kernel.lengthscale,
            "term1__factor": scaled.factor,
            "noise_variance": result.values["noise_variance"],
        }
    )
    assert scaled.factor != 0.05
    assert scaled.kernel.lengthscale != 4.0
    weights = np.abs(weighted.weights).reshape(PLACES, PLACES)
    assert weights[1:4, 1:4].mean() > 2.0 * weights[4:].mean()
    assert "8 + 8 patches\n" in str(gp.fit_report_)
    # The learned kernel, fitted without a search, is the fit.
    again = fitted(learned, X, y, inducing=gp.inducing_patches_)
    np.testing.assert_allclose(again.predict(X), gp.predict(X), rtol=1e-5, atol=1e-6)


def test_only_terms_that_say_so_learn_their_patches():
    X = images(60)
    spec, settings = kernel() + 0.1 * rbf(4.0), {"n_inducing": [3, 4]}
    first = fitted(spec, X, centre_only(X), **settings)
    how = ["kmeans", "learned"]
    gp = fitted(spec, X, centre_only(X), inducing=how, **settings)
    stayed, moved = zip(first.inducing_patches_, gp.inducing_patches_, strict=True)
    np.testing.assert_allclose(*stayed)
    assert not np.allclose(*moved)
    assert gp.optimizer_result_.rho < gp.optimizer_result_.start_rho
    assert gp.kernel_ == first.kernel_


def test_weights_of_an_average_over_flips_are_mirrored():
    X = images(60)
    spec = FlipAverage(weighted_and_whole())
    settings = {"n_inducing": 6, "optimizer": "loo", "random_state": 1}
    gp = fitted(spec, X, centre_only(X), **settings)
    assert gp.optimizer_result_.rho < gp.optimizer_result_.start_rho
    maps = gp.kernel_.kernel.parts[0].weights.reshape(PLACES, PLACES)
    np.testing.assert_array_equal(maps, maps[:, ::-1])
    assert np.std(maps) > 0.1
    flipped = np.ascontiguousarray(X[..., ::-1])
    np.testing.assert_allclose(gp.predict(flipped), gp.predict(X), atol=1e-4)


def test_weights_that_only_fit_their_images_are_not_taken():
    rng = np.random.default_rng(0)
    X, y = images(60), rng.normal(size=60)  # nothing can be learned
    settings = {"noise_variance": 0.01}
    gp = fitted(kernel(weights="learned"), X, y, **settings)
    plain = fitted(kernel(), X, y, **settings)
    result = gp.optimizer_result_
    assert min(result.rho_trace) < result.start_rho - 0.1  # they fit, and yet
    np.testing.assert_allclose(gp.kernel_.weights, 1.0)
    assert result.rho == pytest.approx(result.start_rho)
    np.testing.assert_allclose(gp.predict(X), plain.predict(X), rtol=1e-5, atol=1e-6)


def test_a_given_noise_is_held():
    X = images(30)
    gp = fitted(
        kernel(location_lengthscale=2.0),
        X,
        centre_only(X),
        optimizer="loo",
        noise_variance=0.05,
    )
    assert gp.noise_variance_ == 0.05
    assert "noise_variance" not in gp.optimizer_result_.labels


def test_an_optimizer_object_maximises_the_evidence():
    X = images(30)
    y = centre_only(X)
    spec = kernel(location_lengthscale=2.0)
    by_word = fitted(spec, X, y, optimizer="evidence")
    by_part = fitted(spec, X, y, optimizer=LBFGS(max_iter=25))
    assert by_part.kernel_ == by_word.kernel_


def test_copies_of_images_change_nothing_that_is_learned():
    X = images(30)
    y = centre_only(X)
    spec = kernel(location_lengthscale=2.0)
    given = X[:4, :, :PATCH, :PATCH]
    settings = {"optimizer": "loo", "inducing": given}
    once = fitted(spec, X, y, **settings)
    twice = fitted(spec, np.repeat(X, 2, axis=0), np.repeat(y, 2), **settings)
    assert twice.optimizer_result_.rho == pytest.approx(once.optimizer_result_.rho)


def test_classifiers_learn_in_searches_over_settings():
    X = images(60)
    y = np.where(X[:, 0, 3, 3] > 0.0, "bright", "dark")
    gp = PatchGPClassifier(kernel(), n_inducing=6, random_state=0)
    specs = [kernel(), kernel(weights="learned")]
    search = GridSearchCV(gp, {"kernel": specs, "optimizer": [None, "loo"]}, cv=2)
    search.fit(X, y)
    assert search.best_params_["kernel"].weights == "learned"
    again = clone(search.best_estimator_)
    assert again.get_params()["kernel"].weights == "learned"
    assert again.fit(X, y).predict_proba(X).shape == (60, 2)


def test_a_fit_without_learning_has_no_result():
    X = images(30)
    gp = PatchGPRegressor(kernel(), n_inducing=4, optimizer="loo", random_state=0)
    gp.fit(X, centre_only(X)).set_params(optimizer=None)
    assert not hasattr(gp.fit(X, centre_only(X)), "optimizer_result_")


HELD = PatchKernel(
    rbf(1.0, lengthscale_bounds="fixed"), patch_size=PATCH, location_lengthscale=None
)
WRONG = {
    "unknown": ({"optimizer": "bound"}, "'evidence', 'loo', 'elbo'"),
    "class": ({"optimizer": LBFGS}, "an optimiser of skconvgp.flows"),
    "amplitude": ({"optimizer": "loo", "amplitude": 2.0}, "'profile'"),
    "nothing free": ({"kernel": HELD, "optimizer": "loo"}, "nothing to learn"),
    "inducing": ({"inducing": "learn"}, "'learned'"),
    "memory": ({"optimizer": "loo", "memory_budget": 2000}, "memory_budget"),
}


@pytest.mark.parametrize(("settings", "message"), WRONG.values(), ids=WRONG)
def test_wrong_settings(settings, message):
    gp = PatchGPRegressor(**({"kernel": kernel(), "n_inducing": 4} | settings))
    with pytest.raises((ValueError, MemoryError), match=message):
        gp.fit(images(20), centre_only(images(20)))


def test_sample_weights_are_refused():
    X = images(20)
    gp = PatchGPRegressor(kernel(), n_inducing=4, optimizer="loo")
    with pytest.raises(ValueError, match="sample weights"):
        gp.fit(X, centre_only(X), sample_weight=np.full(20, 2.0))


def test_other_estimators_say_who_learns_weights():
    X = images(10)
    with pytest.raises(ValueError, match="PatchGPClassifier and PatchGPRegressor"):
        ConvNetGPRegressor(kernel(weights="learned")).fit(X, centre_only(X))


@pytest.mark.parametrize("optimizer", [None, "loo", "elbo"])
def test_what_learns_weights_and_patches_is_planned(optimizer):
    gp = PatchGPClassifier(
        kernel(weights="learned"),
        n_inducing=8,
        inducing="learned",
        likelihood="softmax",
        optimizer=optimizer,
    )
    plan = gp.plan(images(40), np.arange(40) % 3)
    stages = {stage.name: stage for stage in plan.stages}
    assert ("natural steps" in stages) == (optimizer == "elbo")
    assert stages["search"].seconds > 0.0
