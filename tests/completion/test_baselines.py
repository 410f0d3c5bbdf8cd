"""Subset of data and coarse kernels: how many samples, which network."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from skconvgp._protocols import Completion, Localization
from skconvgp.completion import CoarseKernel, SubsetOfData
from skconvgp.exceptions import CompletionError
from skconvgp.kernels import Conv2d, convnet, dense, residual_convnet, resnet32
from tests.helpers.oracles import PlainOracle, seeded, smooth

WORDS = ["uniform", "stratified", "kmeans"]
every_word = pytest.mark.parametrize("word", WORDS)


class Oracle(PlainOracle):
    """Knows the classes of its samples too: few are of class 1."""

    def labels(self):
        return (torch.arange(self.n_samples) % 10 == 0).to(torch.int64)


def oracle_of(n):
    return Oracle(*smooth(n, 0.1))


@pytest.mark.parametrize("part", [SubsetOfData(), CoarseKernel()], ids=repr)
def test_is_no_strategy_of_another_kind(part):
    assert not isinstance(part, Completion)
    assert not isinstance(part, Localization)


@pytest.mark.parametrize(
    "part",
    [
        SubsetOfData(),
        SubsetOfData(9, "kmeans"),
        CoarseKernel(),
        CoarseKernel(3, None, 5),
        CoarseKernel(kernel=convnet(2)),
    ],
    ids=repr,
)
def test_settings_are_parameters(part):
    assert clone(part) == part
    assert clone(type(part)()).set_params(**part.get_params(deep=False)) == part
    names = {"CoarseKernel": CoarseKernel, "SubsetOfData": SubsetOfData}
    assert eval(repr(part), names | {"convnet": convnet}) == part


@given(n=st.integers(1, 80), share=st.floats(1e-4, 1.0))
def test_number_is_the_largest_that_the_share_allows(n, share):
    allowed = share * n * (n + 1) / 2
    fitting = [m for m in range(n + 1) if m * (m + 1) / 2 <= allowed * (1 + 1e-9)]
    if fitting[-1] >= min(2, n):
        assert SubsetOfData().count(n, share) == fitting[-1]
    else:
        with pytest.raises(CompletionError, match="smallest usable value"):
            SubsetOfData().count(n, share)


@given(n=st.integers(2, 10**5), m=st.integers(2, 10**5))
def test_rounding_of_the_share_costs_no_sample(n, m):
    m = min(m, n)
    assert SubsetOfData().count(n, m * (m + 1) / (n * (n + 1))) == m


def test_a_fifth_of_the_entries_is_the_matrix_of_45_percent():
    assert SubsetOfData().count(5000, 0.2) == 2235
    assert SubsetOfData().count(20_000, 0.2) == 8943


def test_number_asked_for_wins_and_is_cut():
    assert SubsetOfData(7).count(100, 1e-6) == 7
    assert SubsetOfData(700).count(100, 1e-6) == 100


@pytest.mark.parametrize("n", [2, 5, 1234])
def test_the_smallest_fraction_named_is_usable(n):
    with pytest.raises(CompletionError, match="matrix of 2 samples") as caught:
        SubsetOfData().count(n, 1e-7)
    assert "`n_samples`" in str(caught.value)
    smallest = float(str(caught.value).split("value is ")[1].split(". ")[0])
    assert SubsetOfData().count(n, smallest) == 2
    with pytest.raises(CompletionError):
        SubsetOfData().count(n, 0.98 * smallest)


@every_word
@pytest.mark.parametrize("n", [1, 2, 40])
def test_selected_samples_are_different_and_cost_nothing(word, n):
    oracle = oracle_of(n)
    part = SubsetOfData(selection=word)
    share = 0.5 if n == 40 else 1.0
    indices = part.select(oracle, share, seeded())
    assert len(set(indices.tolist())) == len(indices) == part.count(n, share)
    assert not oracle.asked.any()


@every_word
def test_the_generator_decides(word):
    part = SubsetOfData(20, word)
    first, second, other = (
        part.select(oracle_of(60), 0.2, seeded(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_stratified_takes_as_many_of_each_class():
    oracle = oracle_of(100)
    indices = SubsetOfData(12, "stratified").select(oracle, 0.2, seeded())
    assert oracle.labels()[indices].bincount().tolist() == [6, 6]


def test_kmeans_finds_the_far_samples():
    points = torch.cat([torch.ones(50, 2), -torch.eye(2)]).to(torch.float64)
    points += 0.01 * torch.randn(52, 2, generator=seeded(), dtype=torch.float64)
    oracle = PlainOracle(torch.eye(52), points)
    indices = SubsetOfData(6, "kmeans").select(oracle, 0.2, seeded())
    assert {50, 51} < set(indices.tolist())


@pytest.mark.parametrize("word", ["stratified", "kmeans"])
def test_selection_that_needs_more_than_there_is_is_refused(word):
    oracle = PlainOracle(torch.eye(9))
    message = rf"selection='{word}' of SubsetOfData needs .*Use selection='uniform'"
    with pytest.raises(CompletionError, match=message):
        SubsetOfData(5, word).select(oracle, 0.2, seeded())
    assert not oracle.asked.any()


BAD_SUBSETS = [
    ("selection", "greedy_pivoted"),
    ("selection", "random_pivoted"),
    ("selection", "leverage"),
    ("selection", None),
    ("n_samples", 1),
    ("n_samples", 0),
    ("n_samples", 2.0),
    ("n_samples", True),
    ("n_samples", "many"),
]
BAD_COARSE = [
    ("pool", 0),
    ("pool", 2.0),
    ("pool", None),
    ("pool", True),
    ("depth", 0),
    ("depth", "few"),
    ("kernel_size", -3),
    ("kernel_size", 3.0),
]


@pytest.mark.parametrize(("name", "value"), BAD_SUBSETS)
def test_wrong_settings_of_a_subset_are_refused(name, value):
    message = re.escape(f"The '{name}' parameter of SubsetOfData must be ")
    with pytest.raises(ValueError, match=f"{message}.* Got {value!r} instead"):
        SubsetOfData(**{name: value}).count(50, 0.2)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01, float("nan")])
def test_share_is_above_0_and_at_most_1(share):
    with pytest.raises(ValueError, match=r"`observed_fraction` must be .* got"):
        SubsetOfData(5).count(100, share)


@pytest.mark.parametrize("kernel", [convnet(), residual_convnet()], ids=repr)
def test_network_gets_the_settings_and_keeps_the_others(kernel):
    kernel = kernel.replace(weight_variance=1.5)
    coarse = CoarseKernel(depth=2, kernel_size=5).coarsen(kernel)
    assert coarse == kernel.replace(depth=2, kernel_size=5)
    assert (coarse.depth, coarse.kernel_size, coarse.weight_variance) == (2, 5, 1.5)
    assert CoarseKernel(depth=None).coarsen(kernel) == kernel.replace(kernel_size=3)
    assert CoarseKernel(kernel_size=None).coarsen(kernel) == kernel.replace(depth=5)


def test_the_kernel_itself_is_left_alone():
    kernel, own = convnet(), residual_convnet(2)
    for part in (CoarseKernel(), CoarseKernel(1, None, None), CoarseKernel(kernel=own)):
        coarse = part.coarsen(kernel)
        coarse.set_params(weight_variance=9.0)
        assert kernel == convnet()
        assert own == residual_convnet(2)


def test_kernel_of_its_own_wins():
    own = residual_convnet(2)
    assert CoarseKernel(kernel=own).coarsen(resnet32()) == own
    assert CoarseKernel(kernel=own).get_params()["kernel__depth"] == 2


@pytest.mark.parametrize(
    ("kernel", "missing"),
    [(resnet32(), "depth"), (2.0 * convnet(), "depth"), (dense(2), "kernel_size")],
    ids=["resnet32", "scale", "dense"],
)
def test_kernel_without_these_settings_is_refused(kernel, missing):
    with pytest.raises(ValueError, match=f"no setting '{missing}'.*kernel=.*None"):
        CoarseKernel().coarsen(kernel)
    assert CoarseKernel(depth=None, kernel_size=None).coarsen(kernel) == kernel


def test_a_setting_that_is_there_may_be_changed_alone():
    coarse = CoarseKernel(depth=None).coarsen(Conv2d(7, stride=2))
    assert coarse == Conv2d(3, stride=2)


@pytest.mark.parametrize(("name", "value"), BAD_COARSE)
def test_wrong_settings_of_a_coarse_kernel_are_refused(name, value):
    message = re.escape(f"The '{name}' parameter of CoarseKernel must be ")
    with pytest.raises(ValueError, match=f"{message}.* Got {value!r} instead"):
        CoarseKernel(**{name: value}).coarsen(convnet())
