"""What processes of labels say, against dense formulas, refits and repetitions."""

import dataclasses
import pickle
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import pytest
import torch

from skconvgp.completion import RandomFeatures
from skconvgp.likelihoods import Beta, Dirichlet, Laplace
from skconvgp.processes import (
    LinkModel,
    NewRows,
    NoisyModel,
    TermChoice,
    extend_process,
    plan_landmarks,
    plan_patches,
)
from tests.helpers.dense_laplace import dense_laplace
from tests.helpers.processes import (
    LANDMARKS,
    NOISE,
    RESOURCES,
    Task,
    coarse_and,
    exact_joint,
    expansion_joint,
    features_joint,
    first_call,
    fit_extended,
    leaves,
    patches_joint,
    planned,
    sum_joint,
)
from tests.helpers.tolerances import assert_close
from tests.helpers.worlds import N_NEW, PATCH, N

CODES = np.random.default_rng(5).permutation(np.arange(N) % 3)
FRACTIONS = np.random.default_rng(3).uniform(0.3, 2.5, N)
WHOLE = np.random.default_rng(4).integers(1, 4, N).astype(float)
AMPLITUDE = 4.0
PATCHES = np.random.default_rng(5).uniform(0.0, 1.0, (3, 1, PATCH, PATCH))


def fit_patches(variance, task, models_of, some=slice(None)):
    choices = (TermChoice(PATCHES, None, (2, 1)),)
    plan = plan_patches(
        task.basis(some),
        task.settings,
        variance,
        choices,
        RESOURCES,
        models=tuple(models_of(task.problem(some))),
    )
    return plan.fit(task.problem(some), RESOURCES)[0].process


def fit_landmarks(variance, task, models_of, some=slice(None)):
    given = task.basis(some), task.settings, RESOURCES, models_of, task.problem(some)
    plan = plan_landmarks(LANDMARKS, variance, *given)
    return plan.fit(task.problem(some), RESOURCES)[0].process


def fit_completed(completion, task, models_of, some=slice(None)):
    return planned(task, completion, models_of=models_of, some=some)


def extended(fit, extend, dense):
    """Return the fit to a first call that is added to, and its dense model."""

    def fit_both(task, models_of):
        how = extend
        if extend is extend_process:  # of a fit by a matrix
            how = partial(extend, codes=task.codes[task.numbers[first_call(task)]])
        return fit_extended(partial(fit, models_of=models_of), how, task)

    def dense_both(task, process):
        return dense(task, process, first=first_call(task))

    return fit_both, dense_both


# More features than samples, which are fitted by a matrix, and fewer.
EXPANSIONS = {
    name: (partial(fit_completed, RandomFeatures(n)), expansion_joint)
    for name, n in (("wide expansion", 40), ("expansion", 8))
}
LANDMARK = {
    word: (partial(fit_landmarks, word), partial(features_joint, variance=word))
    for word in ("dtc", "sor")
}
BY_PATCHES = {
    word: (partial(fit_patches, word), partial(patches_joint, variance=word))
    for word in ("dtc", "sor")
}
COMPLETIONS = {
    "exact": (partial(fit_completed, None), exact_joint),
    "completed": (
        partial(fit_completed, LANDMARKS),
        partial(features_joint, variance="dtc"),
    ),
    "sum": (
        partial(fit_completed, coarse_and(LANDMARKS)),
        sum_joint,
    ),
    **EXPANSIONS,
}
for name, (fit, dense) in EXPANSIONS.items():
    COMPLETIONS[f"extended {name}"] = extended(fit, extend_process, dense)
for word in ("dtc", "sor"):
    fit, dense = LANDMARK[word]
    COMPLETIONS[f"landmarks {word}"] = fit, dense
    COMPLETIONS[f"extended landmarks {word}"] = extended(fit, extend_process, dense)
    fit, dense = BY_PATCHES[word]
    COMPLETIONS[f"patches {word}"] = fit, dense
    COMPLETIONS[f"extended patches {word}"] = extended(fit, extend_process, dense)


@dataclass(frozen=True, eq=False)
class Case:
    """A likelihood, and what the covariances are of."""

    likelihood: object
    n_classes: int
    completion: str
    world: str

    @property
    def is_extended(self):
        return self.completion.startswith("extended")

    def task(self, weights, **settings):
        settings = {"amplitude": AMPLITUDE, "codes": CODES % self.n_classes} | settings
        return Task(self.world, weights, **settings)

    def fit(self, task):
        return COMPLETIONS[self.completion][0](task, self.models_of)

    def models_of(self, problem):
        codes = torch.as_tensor(problem.codes)
        if isinstance(self.likelihood, Laplace):
            return [LinkModel(self.likelihood, codes, self.n_classes)]
        weights = torch.as_tensor(problem.weights)
        targets = self.likelihood.targets(codes, self.n_classes, weights)
        return [NoisyModel(self.likelihood, targets, weights, problem.inputs)]

    def dense(self, task, process):
        return COMPLETIONS[self.completion][1](task, process)

    def classes(self, task, process):
        """Return the dense model of each class, and its targets (n, 1)."""
        common, problem = self.dense(task, process), task.problem()
        targets = self.models_of(problem)[0].targets
        offset = targets.offset
        if self.is_extended:  # that of the first call stays
            offset = torch.as_tensor(process.labels.offset)
        values = (targets.values - offset).numpy()
        noise = targets.noise.numpy() / AMPLITUDE + NOISE
        return [
            (replace(common, noise=noise[:, c]), values[:, [c]])
            for c in range(self.n_classes)
        ]


BY_FEATURES = [
    (name, "patches" if "patches" in name else "points")
    for name in COMPLETIONS
    if name.endswith(("dtc", "sor", "expansion"))
]


def cases(likelihood, n_classes, more=()):
    kinds = [
        ("exact", "points"),
        ("exact", "matrix"),
        ("exact", "network"),
        ("completed", "points"),
        ("completed", "matrix"),
        ("completed", "network"),
        ("sum", "network"),
        *more,
    ]
    return [Case(likelihood, n_classes, *kind) for kind in kinds]


def name_of(case):
    likelihood = case.likelihood
    word = getattr(likelihood, "link", type(likelihood).__name__.lower())
    return f"{word}-{case.completion}-{case.world}".replace(" ", "-")


NOISY = [*cases(Dirichlet(), 3, BY_FEATURES), *cases(Beta(0.01), 2, BY_FEATURES)]
LINKED = [
    *cases(Laplace("softmax"), 3),
    *cases(Laplace("logit"), 2),
    *cases(Laplace("probit"), 2),
]
every_noisy = pytest.mark.parametrize("case", NOISY, ids=name_of)
every_linked = pytest.mark.parametrize("case", LINKED, ids=name_of)
every_case = pytest.mark.parametrize("case", [*NOISY, *LINKED], ids=name_of)


@cache
def fitted(case):
    weights = np.ones(N) if isinstance(case.likelihood, Laplace) else FRACTIONS
    task = case.task(weights)
    return case.fit(task), task


@cache
def link_posterior(case):
    """Return the dense posterior, covariances, and what features leave out."""
    process, task = fitted(case)
    dense = case.dense(task, process)
    gram, cross, prior = (
        torch.tensor(AMPLITUDE * part).contiguous()
        for part in (dense.gram, dense.cross.T, dense.prior)
    )
    gram = gram + AMPLITUDE * NOISE * torch.eye(N).double()
    link = case.likelihood.link
    n_latents = case.n_classes if link == "softmax" else 1
    codes = torch.as_tensor(task.codes)
    found = dense_laplace(gram, codes, n_latents, link)
    return found, gram, cross, prior, AMPLITUDE * (dense.own - np.diag(dense.gram))


def both(columns):
    """Return functions of all classes, of one for the second of two."""
    if columns.shape[1] > 1:
        return columns
    return np.concatenate([-columns, columns], axis=1)


def latent_of(process, task, **wanted):
    return process.latent(NewRows(*task.new()), RESOURCES, **wanted)


@every_noisy
def test_mean_and_variance_of_targets_with_noise(case):
    process, task = fitted(case)
    latent = latent_of(process, task, needs_var=True)
    each = case.classes(task, process)
    mean = np.hstack([dense.mean(y) for dense, y in each])
    assert_close(latent.mean, mean, kind="solve")
    var = np.stack([dense.variance() for dense, _ in each], 1)
    assert_close(latent.var, var, kind="solve")
    assert latent.between.size == 0
    assert not latent.facts


@every_linked
def test_mean_and_variance_by_newton(case):
    process, task = fitted(case)
    dense, gram, cross, prior, _ = link_posterior(case)
    latent = latent_of(process, task, needs_var=True)
    assert_close(latent.mean, both(dense.mean(gram, cross).numpy()), kind="root")
    whole = dense.covariance(gram, cross, prior).numpy() / AMPLITUDE
    own = np.stack([whole[i, :, i] for i in range(N_NEW)])
    var = np.einsum("ikk->ik", own)
    assert_close(latent.var, var, kind="root")
    if dense.n_latents > 1:
        assert_close(latent.between, own, kind="root")
    assert not latent.facts


@every_case
def test_covariance(case):
    process, task = fitted(case)
    if case.world == "matrix":
        with pytest.raises(ValueError, match="no covariance"):
            latent_of(process, task, needs_cov=True)
        return
    found = latent_of(process, task, needs_cov=True).cov
    if case in NOISY:
        each = [dense.covariance() for dense, _ in case.classes(task, process)]
        assert_close(found, np.stack(each, 2), kind="solve")
        return
    dense, *covariances, _ = link_posterior(case)
    expected = dense.covariance(*covariances).numpy() / AMPLITUDE
    assert_close(found, np.einsum("ikjk->ijk", expected), kind="root")


@every_noisy
def test_left_out_is_a_refit_without_the_input(case):
    process, task = fitted(case)
    mean, var = process.left_out.mean, process.left_out.var
    for c, (dense, y) in enumerate(case.classes(task, process)):
        refits = [dense.left_out(y, i) for i in range(N)]
        assert_close(mean[:, c], [one[0] for one, _ in refits], kind="solve")
        assert_close(var[:, c] / AMPLITUDE, [own for _, own in refits], kind="solve")


@every_linked
def test_left_out_is_a_refit_without_the_gaussian_of_the_label(case):
    process, _ = fitted(case)
    dense, gram, _, _, rest = link_posterior(case)
    mean, cov = process.left_out.mean, process.left_out.var
    refits = [dense.left_out(gram, i) for i in range(N)]
    expected = np.stack([one.numpy() for one, _ in refits])
    assert_close(mean, both(expected), kind="root")
    more = rest - AMPLITUDE * NOISE  # of the functions, without the noise
    expected = np.stack([one.numpy() for _, one in refits])
    expected += more[:, None, None] * np.eye(dense.n_latents)
    if dense.n_latents == 1:
        expected = np.repeat(expected[:, 0], 2, axis=1)
    assert_close(cov, expected, kind="root")


@every_noisy
def test_evidence_is_the_density_of_the_targets(case):
    task = case.task(WHOLE)
    process = case.fit(task)
    each = [dense.evidence(y, [AMPLITUDE]) for dense, y in case.classes(task, process)]
    if process.has_one_latent:
        each = each[:1]
    assert process.model.log_evidence == pytest.approx(sum(each), rel=1e-9)


@every_linked
def test_evidence_is_that_of_the_dense_approximation(case):
    process, _ = fitted(case)
    expected = link_posterior(case)[0].evidence
    assert process.model.log_evidence == pytest.approx(expected, rel=1e-7)


@every_noisy
def test_weights_are_repetitions(case):
    task = case.task(WHOLE)
    one = case.fit(task)
    numbers = np.repeat(np.arange(N), WHOLE.astype(int))
    many_task = case.task(np.ones(len(numbers)), numbers=numbers)
    many = case.fit(many_task)
    assert_close(many.labels.offset, one.labels.offset, kind="solve")
    evidence = many.model.log_evidence
    assert one.model.log_evidence == pytest.approx(evidence, rel=1e-9)
    ours, theirs = (
        latent_of(*each, needs_var=True) for each in ((one, task), (many, many_task))
    )
    assert_close(ours.mean, theirs.mean, kind="solve")
    assert_close(ours.var, theirs.var, kind="solve")
    for ours, theirs in zip(
        *((each.left_out.mean, each.left_out.var) for each in (one, many)), strict=True
    ):
        assert_close(ours[numbers], theirs, kind="solve")


@every_case
def test_one_function_serves_two_classes(case):
    process, task = fitted(case)
    assert process.has_one_latent == (case.n_classes == 2)
    mean = latent_of(process, task).mean + process.labels.offset
    if process.has_one_latent:
        assert_close(mean[:, 0], -mean[:, 1])


@every_case
def test_is_a_frozen_value_of_arrays(case):
    process, task = fitted(case)
    assert not any(isinstance(each, torch.Tensor) for each in leaves(process))
    before = pickle.dumps(process)
    latent = latent_of(process, task, needs_var=True)
    assert pickle.dumps(process) == before
    again = latent_of(pickle.loads(before), task, needs_var=True)
    np.testing.assert_array_equal(again.mean, latent.mean)
    np.testing.assert_array_equal(again.var, latent.var)
    with pytest.raises(dataclasses.FrozenInstanceError):
        process.model = None
