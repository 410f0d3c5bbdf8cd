"""Estimators whose kernel learns itself."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsClassifier,
    KernelFlowsRegressor,
)
from skconvgp.completion import (
    CoarseKernel,
    NearestNeighbors,
    Nystrom,
    SubsetOfData,
)
from skconvgp.flows import LBFGS, Adam, BayesianOptimization, GradientDescent, Rho
from skconvgp.flows._batches import Batches
from skconvgp.kernels import convnet, dense, rbf
from skconvgp.solvers import Cholesky
from tests.helpers.estimators import blobs, digits, tiny_network, wave

ROUTES = "skconvgp.processes._plan"
FEW = Adam(max_iter=5)
OPTIMIZERS = [
    Adam(max_iter=60, learning_rate=0.2),
    GradientDescent(max_iter=60, learning_rate=1.0),
    LBFGS(),
    BayesianOptimization(max_iter=20, n_initial=8),
]


def regressor(kernel=None, **settings):
    settings = {"optimizer": FEW, "random_state": 0, "noise_variance": 1e-2} | settings
    return KernelFlowsRegressor(kernel, **settings)


def clean_wave(n, seed=0):
    """Return sorted points (n, 1) and a sine (n,) without noise."""
    X, _ = wave(n, seed)
    return X, np.sin(2.0 * X[:, 0])


def classifier(kernel=None, **settings):
    settings = {"optimizer": FEW, "random_state": 0, "noise_variance": 1e-4} | settings
    return KernelFlowsClassifier(kernel, **settings)


class Recorder:
    """A callback of scikit-learn that counts flow steps, scores them and stops."""

    def __init__(self, last, X, y):
        self.last, self.X, self.y = last, X, y
        self.scores = []

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.task_name != "flow step":
            return False
        self.scores.append(fitted_estimator.score(self.X, self.y))
        return len(self.scores) == self.last

    def teardown(self, estimator, context):
        pass


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
def test_every_optimizer_leaves_a_bad_start(optimizer):
    X, y = clean_wave(60)
    start = rbf(lengthscale=0.1)
    settings = {"objective": "l2", "noise_variance": 1e-4}
    gp = regressor(start, optimizer=optimizer, **settings).fit(X, y)
    result = gp.flow_result_
    assert result.rho < 0.6 * result.start_rho
    assert gp.kernel_.lengthscale > 0.2
    X_test, y_test = clean_wave(60, seed=1)
    unlearned = ConvNetGPRegressor(start).fit(X, y).score(X_test, y_test)
    assert gp.score(X_test, y_test) > max(unlearned, 0.99)


def test_classifier_learns_a_network():
    X, y = digits(400)
    X_test, y_test = digits(400, start=400)
    start = convnet(depth=1, kernel_size=3, weight_variance=1e-3, bias_variance=1e3)
    learning = Adam(max_iter=60, learning_rate=0.3)
    gp = classifier(start, optimizer=learning, batch_size=100).fit(X, y)
    assert gp.flow_result_.rho < gp.flow_result_.start_rho
    unlearned = ConvNetGPClassifier(start).fit(X, y).score(X_test, y_test)
    assert gp.score(X_test, y_test) > unlearned + 0.05


@pytest.mark.parametrize("settings", [{}, {"completion": Nystrom(n_landmarks=20)}])
def test_the_process_is_that_of_the_learned_kernel(settings):
    X, y = wave(40)
    gp = regressor(rbf(lengthscale=0.5), **settings).fit(X, y)
    settings = settings | {"random_state": 0, "noise_variance": gp.noise_variance}
    same = ConvNetGPRegressor(gp.kernel_, **settings).fit(X, y)
    X_test, _ = wave(20, seed=1)
    expected, expected_std = same.predict(X_test, return_std=True)
    mean, std = gp.predict(X_test, return_std=True)
    np.testing.assert_allclose(mean, expected, rtol=1e-10)
    np.testing.assert_allclose(std, expected_std, rtol=1e-10)


def test_result_names_what_was_learned():
    X, y = wave(40)
    gp = regressor(2.0 * rbf(lengthscale=0.5), optimizer=Adam(max_iter=30)).fit(X, y)
    result = gp.flow_result_
    np.testing.assert_allclose(gp.kernel_.theta, result.theta)
    free = [item.label for item in gp.kernel_.hyperparameters if item.is_free]
    assert list(result.labels) == free
    assert result.theta_trace.shape == (30, len(free))
    assert result.n_derivatives == 30
    assert result.message == "all steps done"
    assert gp.kernel.kernel.lengthscale == 0.5  # the setting stays as it is


def test_variances_of_each_layer_are_learned():
    X, y = digits(60)
    network = convnet(
        depth=2,
        kernel_size=3,
        shared_variances=False,
        weight_variance=(9.0, 9.0, 2.0),
        bias_variance=(1.0, 1.0, 1.0),
    )
    gp = classifier(network, objective="l2", batch_size=30).fit(X, y)
    assert len(gp.flow_result_.labels) == 6
    assert (gp.kernel_.theta != network.theta).all()


def test_noise_of_the_objective_is_learned_and_not_that_of_the_process():
    X, y = wave(40)
    objective = Rho(noise_variance=1e-3, noise_variance_bounds=(1e-5, 1.0))
    learning = Adam(max_iter=20, learning_rate=0.2)
    gp = regressor(objective=objective, optimizer=learning, noise_variance=0.05)
    gp.fit(X, y)
    assert gp.flow_result_.labels == ("lengthscale", "noise_variance")
    assert gp.flow_result_.values["noise_variance"] != pytest.approx(1e-3)
    assert gp.noise_variance_ == 0.05


def test_nugget_of_the_objective_is_the_noise_of_the_process_unless_it_is_given():
    X, y = wave(40)
    thetas = [
        regressor(noise_variance=noise, objective=objective).fit(X, y).flow_result_
        for noise, objective in (
            (0.05, None),
            (0.05, "loo_nlpd"),
            (0.01, Rho("loo_nlpd", noise_variance=0.05)),
            (0.01, Rho("loo_nlpd")),
        )
    ]
    own, word, given, usual = (result.theta_trace[-1].item() for result in thetas)
    assert own == word == given != usual


def noisy_wave(n, seed=0):
    """Return points (n, 1) and a sine (n,) with noise of a fifth of its variance."""
    X, y = clean_wave(n, seed)
    return X, y + 0.3 * np.random.default_rng(seed).normal(size=n)


WORDS = ("auto", "loo", "evidence")


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("objective", [None, "held_out", "evidence", "loo_nlpd"])
def test_noise_is_learned_with_the_kernel_where_it_is_a_word(word, objective):
    X, y = noisy_wave(60)
    learning = Adam(max_iter=40, learning_rate=0.2)
    gp = regressor(noise_variance=word, objective=objective, optimizer=learning)
    result = gp.fit(X, y).flow_result_
    assert result.labels == ("lengthscale", "noise_variance")
    assert 1e-3 < result.values["noise_variance"] < 1.0
    # The process has its own, as if the kernel had been there from the start.
    chosen = "loo" if word == "auto" else word
    same = ConvNetGPRegressor(gp.kernel_, noise_variance=chosen).fit(X, y)
    assert gp.noise_variance_ == same.noise_variance_
    np.testing.assert_allclose(gp.dual_coef_, same.dual_coef_, rtol=1e-9)


@pytest.mark.parametrize("kind", ["ratio", "loo", "polarised", "algorithm4"])
def test_norms_keep_their_nugget(kind):
    X, y = noisy_wave(40)
    gp = regressor(noise_variance="auto", objective=kind).fit(X, y)
    assert gp.flow_result_.labels == ("lengthscale",)


def test_default_learns_from_noisy_targets():
    X, y = noisy_wave(80)
    X_test, y_test = clean_wave(200, seed=1)
    errors = {}
    for noise, objective in (("auto", None), (1e-4, "l2")):
        gp = regressor(rbf(0.1), noise_variance=noise, objective=objective)
        gp.set_params(optimizer=None)
        errors[noise] = np.mean((gp.fit(X, y).predict(X_test) - y_test) ** 2)
    assert errors["auto"] < 0.05  # a tenth of the variance
    assert errors["auto"] < 0.5 * errors[1e-4]


@pytest.mark.parametrize(
    "completion", [Nystrom(n_landmarks=20), SubsetOfData(), NearestNeighbors(5)]
)
def test_default_noise_is_chosen_with_any_completion(completion):
    X, y = noisy_wave(60)
    settings = {"completion": completion, "observed_fraction": 0.5}
    gp = regressor(noise_variance="auto", **settings).fit(X, y)
    same = regressor(noise_variance="loo", **settings).fit(X, y)
    assert gp.noise_variance_ == same.noise_variance_
    np.testing.assert_array_equal(gp.predict(X), same.predict(X))


@pytest.mark.parametrize("solver", ["cholesky", Cholesky()])
def test_default_noise_is_chosen_where_the_matrix_is_factored(solver):
    X, y = noisy_wave(60)
    one, same = (
        regressor(noise_variance=word, solver=solver).fit(X, y)
        for word in ("auto", "loo")
    )
    assert one.noise_variance_ == same.noise_variance_


def test_default_noise_is_what_was_learned_where_nothing_is_factored():
    X, y = noisy_wave(60)
    gp = regressor(noise_variance="auto", solver="cg").fit(X, y)
    assert gp.noise_variance_ == gp.flow_result_.values["noise_variance"]


@pytest.mark.parametrize("objective", ["ratio", Rho(noise_variance=1e-3)])
def test_default_noise_is_the_usual_one_where_nothing_can_be_learned(objective):
    X, y = noisy_wave(60)
    settings = {"noise_variance": "auto", "solver": "cg", "objective": objective}
    assert regressor(**settings).fit(X, y).noise_variance_ == 1e-2
    X, y = digits(60)
    gp = classifier(tiny_network(), **settings).fit(X, y)
    assert gp.noise_variance_ == 1e-4


@pytest.mark.parametrize(
    ("completion", "n_whole"),
    [(None, 60), (CoarseKernel(pool=1), 60), (SubsetOfData(n_samples=30), 30)],
)
def test_default_noise_is_what_was_learned_where_eigenvectors_do_not_fit(
    completion, n_whole, monkeypatch
):
    X, y = digits(60)
    gp = classifier(tiny_network(), noise_variance="auto", completion=completion)
    least = 5 * 8 * n_whole**2
    for n_bytes, is_chosen in ((least, True), (least - 1, False)):
        monkeypatch.setattr(f"{ROUTES}.free_memory", lambda _, n=n_bytes: n)
        learned = gp.fit(X, y).flow_result_.values["noise_variance"]
        assert (gp.noise_variance_ != learned) == is_chosen


def test_default_noise_beside_that_of_labels_is_little():
    X, y = digits(60)
    gp = classifier(tiny_network(), noise_variance="auto", likelihood="dirichlet")
    gp.fit(X, y)
    assert "noise_variance" in gp.flow_result_.labels
    assert gp.noise_variance_ == 1e-4


@pytest.mark.parametrize("kind", ["loo", "evidence", "loo_nlpd"])
def test_objective_may_be_a_word(kind):
    X, y = wave(40)
    by_word = regressor(objective=kind).fit(X, y).flow_result_
    objective = Rho(kind, noise_variance=1e-2)
    by_object = regressor(objective=objective).fit(X, y).flow_result_
    np.testing.assert_array_equal(by_word.theta, by_object.theta)


def test_same_seed_same_result_and_another_seed_another():
    X, y = wave(60)
    one, same, other = (
        regressor(batch_size=20, random_state=seed).fit(X, y).flow_result_
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.theta_trace, same.theta_trace)
    assert (one.theta_trace != other.theta_trace).any()


def test_batches_of_a_classifier_hold_every_class(monkeypatch):
    X, y = blobs(90)
    rare = np.flatnonzero((y != 2) | (np.arange(90) < 9))  # three of the last class
    drawn, draw = [], Batches.draw

    def watched(self, size):
        drawn.append(draw(self, size))
        return drawn[-1]

    monkeypatch.setattr(Batches, "draw", watched)
    gp = classifier(batch_size=3, optimizer=Adam(max_iter=3)).fit(X[rare], y[rare])
    assert np.isfinite(gp.flow_result_.rho_trace).all()
    assert len(drawn) >= 7
    for batch in drawn:
        assert set(y[rare][batch.indices.tolist()]) == {0, 1, 2}


def test_search_and_pipeline():
    X, y = wave(60)
    gp = make_pipeline(StandardScaler(), regressor(rbf(1.0)))
    grid = {
        "kernelflowsregressor__optimizer__max_iter": [2, 4],
        "kernelflowsregressor__kernel__lengthscale": [0.1, 1.0],
        "kernelflowsregressor__batch_size": [20, (10, 30)],
        "kernelflowsregressor__objective": [None, "loo_nlpd"],
    }
    search = GridSearchCV(
        gp, grid, cv=KFold(2, shuffle=True, random_state=0), error_score="raise"
    ).fit(X, y)
    assert search.best_score_ > 0.9
    assert clone(gp).get_params(deep=False).keys() == gp.get_params(deep=False).keys()


def test_all_outputs_share_what_is_learned():
    X, y = wave(40)
    both = regressor().fit(X, np.column_stack([y, -2.0 * y]))
    alone = regressor().fit(X, y)
    np.testing.assert_allclose(both.flow_result_.theta, alone.flow_result_.theta)


def test_callbacks_watch_score_and_stop():
    pytest.importorskip("sklearn.callback")
    X, y = wave(40)
    watcher = Recorder(3, X, y)
    gp = regressor(rbf(lengthscale=0.1), optimizer=Adam(learning_rate=0.5))
    gp.set_callbacks(watcher).fit(X, y)
    assert len(watcher.scores) == len(gp.flow_result_.rho_trace) == 3
    assert gp.flow_result_.message == "stopped by a callback"
    # What a step is scored with is the process of its kernel.
    step = rbf(lengthscale=float(np.exp(gp.flow_result_.theta_trace[2, 0])))
    held = {"noise_variance": gp.noise_variance}
    expected = ConvNetGPRegressor(step, **held).fit(X, y).score(X, y)
    assert watcher.scores[2] == pytest.approx(expected, rel=1e-9)


def test_being_watched_draws_nothing():
    pytest.importorskip("sklearn.callback")
    X, y = wave(40)
    settings = {"completion": Nystrom(n_landmarks=20)}
    seeds = [np.random.RandomState(0) for _ in range(2)]
    alone, watched = (regressor(random_state=seed, **settings) for seed in seeds)
    alone.fit(X, y)
    watched.set_callbacks(Recorder(None, X, y)).fit(X, y)
    np.testing.assert_array_equal(watched.landmark_indices_, alone.landmark_indices_)
    assert seeds[0].uniform() == seeds[1].uniform()


def test_progress_is_shown_and_only_if_asked_for(capsys):
    X, y = wave(40)
    regressor().fit(X, y)
    assert not capsys.readouterr().err
    regressor(verbose=1).fit(X, y)
    assert "fit: 100%" in capsys.readouterr().err


def test_an_objective_that_is_never_defined_is_told():
    X, y = wave(30)
    objective = Rho(noise_variance=0.0)
    gp = regressor(
        rbf(lengthscale=1e3, lengthscale_bounds=(1e2, 1e4)),
        objective=objective,
        noise_variance=1e-2,
    )
    with pytest.warns(UserWarning, match="has learned nothing"):
        gp.fit(X, y)
    assert gp.kernel_.lengthscale == pytest.approx(1e3)
    assert np.isfinite(gp.predict(X)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": rbf(1.0, lengthscale_bounds="fixed")}, "no free hyperparameters"),
        ({"kernel": rbf(lengthscale=1e5)}, "not within its bounds"),
        ({"kernel": rbf(1.0, lengthscale_bounds=(2.0, 1.0))}, "low <= high"),
        ({"kernel": "precomputed"}, "no hyperparameters to learn"),
        ({"kernel": 3}, "'kernel' parameter"),
        ({"optimizer": "adam"}, "'optimizer' parameter"),
        ({"optimizer": Adam}, "'optimizer' parameter"),
        ({"optimizer": Adam(max_iter=0)}, "'max_iter' parameter of Adam"),
        ({"objective": "rho"}, "'kind' parameter of Rho"),
        ({"objective": Rho}, "'objective' parameter"),
        ({"objective": Rho(sample_fraction=1.0)}, "'sample_fraction' parameter"),
        ({"objective": Rho(sample_fraction=0.0)}, "'sample_fraction' parameter"),
        ({"batch_size": 41}, "at most the number of training samples, 40"),
        ({"batch_size": 1}, "'batch_size' parameter"),
        ({"batch_size": "all"}, "'batch_size' parameter"),
        ({"batch_size": ()}, "'batch_size' parameter"),
        ({"batch_size": (10, 2.5)}, "'batch_size' parameter"),
        ({"n_batches": 0}, "'n_batches' parameter"),
        ({"noise_variance": "best"}, ">= 0, 'auto', 'loo' or 'evidence'"),
    ],
)
def test_bad_settings_name_the_parameter(settings, message):
    X, y = wave(40)
    settings = dict(settings)
    gp = regressor(settings.pop("kernel", None), **settings)
    with pytest.raises(ValueError, match=message):
        gp.fit(X if gp.kernel != "precomputed" else X @ X.T, y)


def test_a_batch_too_small_for_the_classes_is_told():
    X, y = digits(60)
    with pytest.raises(ValueError, match="no room for 10 classes"):
        classifier(tiny_network(), batch_size=9).fit(X, y)


def test_dense_networks_learn_too():
    X, y = wave(40)
    gp = regressor(dense(2), optimizer=Adam(max_iter=20, learning_rate=0.2)).fit(X, y)
    assert gp.flow_result_.rho < gp.flow_result_.start_rho
