"""BoundSearch: slopes by central differences, and the bound in closed form."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

import skconvgp.flows._bound_ascent as module
from skconvgp import (
    ConvNetGPClassifier,
    KernelFlowsClassifier,
    PatchGPClassifier,
    PatchGPRegressor,
)
from skconvgp.datasets import make_rectangles
from skconvgp.flows import LBFGS, VariationalBound
from skconvgp.flows._bound_ascent import Ascent
from skconvgp.flows._patch_parameters import PatchParameters
from skconvgp.kernels import FlipAverage, PatchKernel, matern, rbf
from skconvgp.likelihoods import RobustMax
from skconvgp.processes import Variational
from tests.helpers.estimators import digits

STEP = 1e-5
WEIGHTED = PatchKernel(
    rbf(6.0), patch_size=3, location_lengthscale=None, weights="learned"
)
PLACES = PatchKernel(matern(6.0, nu=2.5), patch_size=3, location_lengthscale=2.0)
QUICK_PLACES = PatchKernel(rbf(6.0), patch_size=3, location_lengthscale=2.0)
KERNELS = {
    "weighted": WEIGHTED,
    "places": QUICK_PLACES,
    "matern": PLACES,
    "sum": WEIGHTED + 0.05 * rbf(20.0),
    "flips": FlipAverage(WEIGHTED),
    "each pixel": PatchKernel(
        rbf(np.linspace(4.0, 8.0, 9)), patch_size=3, location_lengthscale=None
    ),
}


def few(n=40):
    X, y = digits(200)
    seen = y < 3
    return X[seen][:n].reshape(-1, 1, 8, 8), y[seen][:n]


def classifier(kernel, likelihood="robustmax", **settings):
    settings = {"likelihood": likelihood} | settings
    bound = VariationalBound(max_iter=20, batch_size=20)
    usual = {"n_inducing": 6, "inducing": "learned", "optimizer": bound}
    usual |= {"random_state": 0, "dtype": "float64", "max_iter": 9, "tol": 1e6}
    return PatchGPClassifier(kernel, **(usual | settings))


def caught(monkeypatch, estimator, X, y):
    """Return the ascent of a fit before its first step."""
    found = []

    def keep(ascent, generator):
        found.append(ascent)
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(Ascent, "climb", keep)
        with pytest.raises(InterruptedError):
            estimator.fit(X, y)
    return found[0]


def assert_slopes(ascent, seed=0, scale=0.0):
    """Compare slopes near the start, where the amplitude is changed by e^scale."""
    generator = np.random.default_rng(seed)
    state, batch = ascent.state, torch.arange(0, len(ascent.problem.rows), 2)
    start = state.theta + 0.05 * generator.normal(size=len(state.theta))
    start[-1] += scale
    sizes = ascent.parameters.sizes
    n_logs = sum(sizes[:2])
    directions = [*np.eye(len(start))[:n_logs], np.eye(len(start))[-1]]
    first = n_logs
    for size in filter(None, sizes[2:]):
        directions.append(np.zeros(len(start)))
        directions[-1][first : first + size] = generator.normal(size=size)
        first += size

    def value(theta):
        state.theta = theta
        return float(ascent.latents(batch).sites.log_prob.sum())

    expected = [
        (value(start + STEP * one) - value(start - STEP * one)) / (2.0 * STEP)
        for one in directions
    ]
    state.theta = start
    slope = ascent.slope(ascent.latents(batch))
    assert (slope[:-1] != 0.0).all()
    found = np.array(directions) @ slope
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-7)
    return slope


@pytest.mark.parametrize("name", KERNELS)
def test_slopes_are_central_differences(name, monkeypatch):
    ascent = caught(monkeypatch, classifier(KERNELS[name]), *few())
    slope = assert_slopes(ascent)
    # The largest latent function stays the largest at another scale.
    assert slope[-1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("likelihood", ["softmax", "bernoulli"])
def test_slopes_of_two_classes(likelihood, monkeypatch):
    X, y = few()
    ascent = caught(monkeypatch, classifier(WEIGHTED, likelihood), X, y < 1)
    # At a small scale, the quadrature is exact to many digits.
    assert assert_slopes(ascent, scale=-6.0)[-1] != 0.0


@pytest.mark.parametrize("noise", ["auto", 0.05])
def test_slopes_of_targets(noise, monkeypatch):
    X, y = few()
    gp = PatchGPRegressor(
        WEIGHTED,
        n_inducing=6,
        inducing="learned",
        optimizer="elbo",
        noise_variance=noise,
        dtype="float64",
        random_state=0,
    )
    ascent = caught(monkeypatch, gp, X, np.stack([y, np.sin(y)], 1))
    assert ascent.parameters.learns_noise == (noise == "auto")
    assert assert_slopes(ascent)[-1] != 0.0


def test_slopes_of_a_batch_stand_for_all(monkeypatch):
    ascent = caught(monkeypatch, classifier(WEIGHTED), *few())
    n = len(ascent.problem.rows)
    whole = ascent.slope(ascent.latents(torch.arange(n)))
    parts = [
        ascent.slope(ascent.latents(part)) for part in torch.arange(n).tensor_split(3)
    ]
    np.testing.assert_allclose(sum(parts), whole, rtol=1e-9, atol=1e-12)


def test_single_precision_has_the_same_slopes(monkeypatch):
    X, y = few()
    exact, single = (
        caught(monkeypatch, classifier(WEIGHTED, dtype=dtype), X, y)
        for dtype in ("float64", "float32")
    )
    batch = torch.arange(20)
    one, two = (each.slope(each.latents(batch)) for each in (exact, single))
    np.testing.assert_allclose(one, two, rtol=2e-3, atol=2e-3 * np.abs(one).max())


def test_the_bound_of_targets_is_that_in_closed_form():
    X, y = few(30)
    X = X[:, :, :5, :5]
    kernel = PatchKernel(rbf(6.0), patch_size=3, location_lengthscale=None)
    bound = VariationalBound(max_iter=400, batch_size=len(X), learning_rate=0.02)
    gp = PatchGPRegressor(
        kernel,
        n_inducing=5,
        optimizer=bound,
        normalize_y=False,
        dtype="float64",
        random_state=0,
    ).fit(X, y)
    result = gp.optimizer_result_
    values = result.values
    assert values["base__lengthscale"] == gp.kernel_.base.lengthscale
    # The best bound over the same parameters, by the closed form for each.
    best = np.inf
    for factor in np.geomspace(0.7, 1.4, 9):
        for noise in np.geomspace(0.3, 3.0, 25):
            one = PatchGPRegressor(
                kernel.replace(base__lengthscale=values["base__lengthscale"] * factor),
                inducing=gp.inducing_patches_,
                noise_variance=values["noise_variance"] * noise,
                normalize_y=False,
                dtype="float64",
                random_state=0,
            )
            best = min(best, -one.fit(X, y).elbo() / len(X))
    assert result.rho == pytest.approx(best, abs=0.01)
    assert result.rho < result.start_rho


def test_a_fit_goes_on_where_it_was_stopped(monkeypatch, tmp_path):
    X, y = few()
    bound = VariationalBound(max_iter=12, batch_size=20, cache_dir=tmp_path / "state")
    whole = classifier(WEIGHTED, optimizer=replace(bound, cache_dir=None)).fit(X, y)
    monkeypatch.setattr(module, "SAVE_EVERY", 0.0)
    steps, step = [], Ascent._step_

    def counted(ascent, batch, index):
        steps.append(index)
        if len(steps) == 8:
            raise KeyboardInterrupt
        return step(ascent, batch, index)

    monkeypatch.setattr(Ascent, "_step_", counted)
    estimator = classifier(WEIGHTED, optimizer=bound)
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(X, y)
    again = estimator.fit(X, y)
    assert steps == [*range(8), *range(7, 12)]
    np.testing.assert_array_equal(
        whole.optimizer_result_.rho_trace[:7], again.optimizer_result_.rho_trace[:7]
    )
    np.testing.assert_allclose(
        whole.predict_proba(X), again.predict_proba(X), rtol=1e-9, atol=1e-12
    )
    # All steps are there: none is taken again. Other labels are another search.
    estimator.fit(X, y)
    assert len(steps) == 13
    estimator.fit(X, np.roll(y, 1))
    assert len(steps) == 25
    assert len(list((tmp_path / "state").iterdir())) == 2


def test_a_learned_posterior_is_where_the_fit_begins():
    X, y = few()
    bound = VariationalBound(max_iter=150, batch_size=len(X))
    gp = classifier(WEIGHTED, optimizer=bound, tol=1e-3, max_iter=100).fit(X, y)
    learned = -gp.optimizer_result_.rho * len(X)
    # Steps of the fit only raise the bound, and little.
    assert learned - 0.05 * abs(learned) < gp.elbo() < learned + 0.2 * abs(learned)
    plain = classifier(
        WEIGHTED.replace(weights=None),
        optimizer=None,
        inducing="kmeans",
        variance="dtc",
        tol=1e-3,
        max_iter=100,
    )
    assert gp.elbo() > plain.fit(X, y).elbo() + 1.0
    assert np.mean(gp.kernel_.weights**2) == pytest.approx(1.0)


@pytest.mark.slow
def test_weights_of_rectangles_find_their_edges():
    X, y = make_rectangles(1200, random_state=0)
    new, truth = make_rectangles(2000, random_state=1)
    kernel = PatchKernel(patch_size=3, location_lengthscale=None, weights="learned")
    bound = VariationalBound(max_iter=600, batch_size=100)
    gp = PatchGPClassifier(
        kernel,
        n_inducing=16,
        inducing="learned",
        likelihood="bernoulli",
        optimizer=bound,
        random_state=0,
    ).fit(X, y)
    assert gp.score(new, truth) > 0.985


def colors(n=40):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, 3, 6, 6)) + np.arange(3)[:, None, None]
    return X, np.arange(n) % 2


@pytest.mark.parametrize("optimizer", ["bound", "loo"])
def test_patches_of_color_are_normalized_once(optimizer, monkeypatch):
    X, y = colors()
    found = []

    def keep(parameters, theta, choices):
        learned = own(parameters, theta, choices)
        found.extend(one.inducing.numpy() for one in learned.choices)
        return learned

    own = PatchParameters.learned
    monkeypatch.setattr(PatchParameters, "learned", keep)
    kernel = PatchKernel(patch_size=3, location_lengthscale=None)
    bound = VariationalBound(max_iter=60, batch_size=len(X))
    gp = classifier(
        kernel,
        "softmax",
        optimizer=bound if optimizer == "bound" else LBFGS(max_iter=2),
        variance="dtc",
        max_iter=20,
        tol=1e-9,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gp.fit(X, y)
    np.testing.assert_array_equal(gp.inducing_patches_, found[0])
    if optimizer == "bound":  # the fit goes on from the bound that was reached
        end = -gp.optimizer_result_.rho_trace[-1]
        assert end - 1e-3 < gp.elbo() / len(X) < end + 0.2


def test_the_trace_has_the_bound(monkeypatch):
    X, y = few()
    bound = VariationalBound(max_iter=8, batch_size=len(X))
    gp = classifier(WEIGHTED, "bernoulli", optimizer=bound)
    ascent = caught(monkeypatch, gp, X, y < 1)
    values, step, n = [], Ascent._step_, len(ascent.problem.rows)

    def watched(ascent, batch, index):
        at = ascent.latents(batch)
        values.append(ascent.divergence() / n - float(at.sites.log_prob.mean()))
        return step(ascent, batch, index)

    monkeypatch.setattr(Ascent, "_step_", watched)
    _, result = ascent.climb(torch.Generator())
    np.testing.assert_allclose(result.rho_trace, values, rtol=1e-9)


@pytest.mark.parametrize(
    "other",
    [
        {"noise_variance": 0.5},
        {"random_state": 1},
        {"n_inducing": 5},
        {"likelihood": "softmax"},
        {"kernel": WEIGHTED.replace(base__lengthscale=5.0)},
        {"inducing": "kmeans"},
        {"dtype": "float32"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_state_is_of_the_same_settings(other, tmp_path):
    X, y = few()
    bound = VariationalBound(max_iter=6, batch_size=20)
    first = classifier(WEIGHTED, optimizer=replace(bound, cache_dir=tmp_path))
    first.fit(X, y)
    apart = first.set_params(**other).fit(X, y).predict_proba(X)
    fresh = first.set_params(optimizer=bound).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(apart, fresh)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_fit_leaves_the_learned_posterior(monkeypatch):
    X, y = few()
    found, own = [], Variational.fit

    def twice(variational, problem, collapsed, record, run, generator):
        given = problem, collapsed, record, run
        state = generator.get_state()
        for _ in range(2):
            generator.set_state(state)
            found.append(own(variational, *given, generator))
        return found[-1]

    monkeypatch.setattr(Variational, "fit", twice)
    classifier(WEIGHTED).fit(X, y)
    one, two = (process.bound for process, _ in found)
    assert one == two


def test_noise_of_targets_begins_at_its_best():
    X, y = few()
    bound = VariationalBound(max_iter=5, batch_size=len(X))
    gp = PatchGPRegressor(WEIGHTED, n_inducing=6, optimizer=bound, random_state=0)
    result = gp.fit(X, y).optimizer_result_
    # At the noise that leave-one-out chooses, what features leave out costs far more.
    assert result.start_rho < 5.0
    assert result.values["noise_variance"] > 3.0 * gp.noise_variance_


def test_fused_responses_of_matern_have_slopes():
    X, y = few()
    bound = VariationalBound(max_iter=4, batch_size=20)
    settings = {"optimizer": bound, "dtype": "float32", "random_state": 0}
    torch_alone = classifier(PLACES, backend="torch", **settings).fit(X, y)
    auto = classifier(PLACES, backend="auto", **settings).fit(X, y)
    np.testing.assert_allclose(
        torch_alone.predict_proba(X), auto.predict_proba(X), atol=0.02
    )


WRONG = {
    "steps": (VariationalBound(max_iter=0), "'max_iter' parameter"),
    "batch": (VariationalBound(batch_size=1.5), "'batch_size' parameter"),
    "rate": (VariationalBound(learning_rate=-1.0), "'learning_rate' parameter"),
    "folder": (VariationalBound(cache_dir=3), "'cache_dir' parameter"),
    "no folder": (VariationalBound(cache_dir=""), "'cache_dir' parameter"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_settings_are_refused(name):
    bound, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        classifier(WEIGHTED, optimizer=bound).fit(*few())


TOGETHER = {
    "seed": (
        {"optimizer": VariationalBound(cache_dir="x"), "random_state": None},
        "an int >= 0 as `random_state`",
    ),
    "variance": ({"variance": "sor"}, "variance='auto'"),
    "counts": ({"likelihood": "dirichlet"}, "no bound for"),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_settings_that_do_not_go_together(name):
    settings, message = TOGETHER[name]
    with pytest.raises(ValueError, match=message):
        classifier(WEIGHTED, **settings).fit(*few())


def test_other_estimators_say_who_takes_it():
    message = "VariationalBound is for PatchGPClassifier"
    with pytest.raises(ValueError, match=message):
        ConvNetGPClassifier(rbf(), optimizer=VariationalBound()).fit(*few())
    with pytest.raises(ValueError, match=message):
        KernelFlowsClassifier(rbf(), optimizer=VariationalBound()).fit(*few())


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    bound = VariationalBound(cache_dir=path)
    with pytest.raises(ValueError, match="must be a folder"):
        classifier(WEIGHTED, optimizer=bound).fit(*few())


def test_objects_of_flows_still_maximise_the_evidence():
    X, y = few()
    gp = classifier(WEIGHTED, optimizer=LBFGS(max_iter=2)).fit(X, y)
    assert gp.optimizer_result_.n_evaluations > 0


def test_robustmax_says_how_it_changes_with_variances():
    mean = torch.tensor([[0.3, -0.2, 0.1]], dtype=torch.float64)
    var = torch.tensor([[0.5, 0.4, 0.8]], dtype=torch.float64)
    codes = torch.tensor([2])
    sites = RobustMax().expected_sites(mean, var, codes)
    for c in range(3):
        change = torch.zeros_like(var)
        change[0, c] = STEP
        up, down = (
            RobustMax().expected_sites(mean, one, codes).log_prob
            for one in (var + change, var - change)
        )
        slope = float(up - down) / (2.0 * STEP)
        assert float(sites.by_variance[0, c]) == pytest.approx(slope, rel=1e-5)
