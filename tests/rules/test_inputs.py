"""What users give as samples is read alike by every public class, or is refused."""

import inspect
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
import torch
from sklearn.base import is_classifier, is_regressor
from sklearn.gaussian_process import GaussianProcessRegressor

from skconvgp import (
    BinaryEncoder,
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageClassifier,
    KernelEnsembleClassifier,
    display,
    gram_diag,
    gram_gradient,
    gram_matrix,
    gram_vjp,
    metrics,
    questions,
)
from skconvgp.kernels import rbf
from skconvgp.transforms import ScatteringTransform
from tests.helpers.estimators import digits, tiny_network, wave
from tests.helpers.public import CASES, CLASSES, as_arrays, fitted_and_results

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:.* explains .*:UserWarning",
    "ignore:Features of the completion exceed:UserWarning",
    "ignore:X has feature names, but:UserWarning",
    "ignore::skconvgp.exceptions.ScaleWarning",
)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_class = pytest.mark.parametrize(
    "case", CLASSES, ids=lambda case: type(case.estimator).__name__
)
GRAMS = {
    "gram_matrix": gram_matrix,
    "gram_diag": gram_diag,
    "gram_gradient": gram_gradient,
    "gram_vjp": lambda kernel, X, **s: gram_vjp(
        kernel, X, X, np.ones((len(X), len(X))), **s
    ),
}
RNG = np.random.default_rng(0)


def fitted_to_images(case):
    """Return the fit that tests share."""
    return fitted_and_results(case)[0]


def results(fitted, X):
    """Return probabilities, or predictions, or features."""
    names = ("predict_proba", "predict", "transform")
    name = next(one for one in names if hasattr(fitted, one))
    return np.asarray(getattr(fitted, name)(X))


def reads_rows(case, shape):
    """Return a copy of a case that reads rows as images of a shape."""
    if isinstance(case.estimator, KernelEnsembleClassifier):
        members = {f"{name}__image_shape": shape for name, _ in case.new().estimators}
        return case.new(**members)
    return case.new(image_shape=shape)


def rows_of(images):
    return images.reshape(len(images), -1)


def assert_alike(found, expected):
    """Compare to rounding: sums over rows of another stride differ by it."""
    size = np.abs(expected).max()
    assert found.shape[0] == expected.shape[0]
    np.testing.assert_allclose(
        found.reshape(len(found), -1),
        expected.reshape(len(found), -1),
        rtol=1e-9,
        atol=1e-9 * size,
    )


# Channels last


@every_case
def test_channels_last_are_refused_in_fit(case):
    _, y, _ = case.data()
    with pytest.raises(ValueError, match=r"\(6, 7, 3\).*np\.moveaxis.*image_shape=\("):
        case.new().fit(RNG.random((len(y), 6, 7, 3)), y)


@every_case
def test_channels_last_are_refused_after_fit(case):
    fitted, (X, y, new) = fitted_to_images(case), case.data()
    names = ("predict", "predict_proba", "predict_latent", "transform", "sample_y")
    for name in (*names, "predict_interval", "partial_fit"):
        method = getattr(fitted, name, None)
        if method is None:
            continue
        samples = (X, y) if name == "partial_fit" else (new,)
        with pytest.raises(ValueError, match=r"np\.moveaxis\(X, -1, 1\)"):
            method(np.moveaxis(samples[0], 1, -1), *samples[1:])


@every_class
def test_a_setting_says_that_channels_are_first(case):
    _, y, _ = case.data()
    images = RNG.random((len(y), 6, 10, 4))
    fitted = reads_rows(case, (6, 10, 4)).fit(images, y)
    assert np.isfinite(results(fitted, images)).all()


def test_none_says_that_images_are_vectors():
    images, y = RNG.random((6, 8, 9, 3)), np.arange(6) % 2
    gp = ConvNetGPClassifier(rbf(), image_shape=None).fit(images, y)
    assert gp.predict(images).shape == (6,)


@pytest.mark.parametrize("setting", ["auto", (3, 8, 9), (3, 9, 8)])
def test_another_setting_does_not_say_so(setting):
    images, y = RNG.random((6, 8, 9, 3)), np.arange(6) % 2
    for kernel in (rbf(), tiny_network()):
        gp = ConvNetGPClassifier(kernel, image_shape=setting)
        with pytest.raises(ValueError, match=r"np\.moveaxis"):
            gp.fit(images, y)


def test_rows_that_were_read_as_vectors_do_not_say_so():
    rows, y = RNG.random((6, 216)), np.arange(6) % 2
    gp = ConvNetGPClassifier(rbf()).fit(rows, y)
    with pytest.raises(ValueError, match=r"np\.moveaxis"):
        gp.predict(rows.reshape(6, 8, 9, 3))
    assert gp.predict(rows.reshape(6, 3, 8, 9)).shape == (6,)


@pytest.mark.parametrize("name", GRAMS)
@pytest.mark.parametrize("kernel", [rbf(1.0), tiny_network()], ids=repr)
def test_channels_last_are_refused_by_functions(name, kernel):
    images = RNG.random((3, 8, 9, 3))
    with pytest.raises(ValueError, match=r"\(8, 9, 3\).*np\.moveaxis"):
        GRAMS[name](kernel, images)
    GRAMS[name](kernel, images, image_shape=(8, 9, 3))
    rows = images.reshape(3, -1)
    if name == "gram_matrix":
        with pytest.raises(ValueError, match=r"np\.moveaxis"):
            gram_matrix(kernel, rows, images, image_shape=(3, 8, 9))


# Frames and tensors


def big_endian(rows):
    return pd.DataFrame(rows.astype(">f8"))


def of_objects(rows):
    return pd.DataFrame(rows).astype(object)


def nullable(rows):
    return pd.DataFrame(rows).astype("Float64")


def of_all_kinds(rows):
    """Return a frame with a type of its own in every fourth column."""
    frame = pd.DataFrame(rows)
    kinds = [">f8", object, "Float64", "float64"]
    return frame.astype({name: kinds[name % 4] for name in frame})


def tensor(rows):
    return torch.tensor(rows, requires_grad=True)


FORMS = {
    "big-endian frame": big_endian,
    "frame of objects": of_objects,
    "nullable frame": nullable,
    "frame of all kinds": of_all_kinds,
    "polars": pl.DataFrame,
    "big-endian array": lambda rows: rows.astype(">f8"),
    "tensor": tensor,
    "half": lambda rows: torch.tensor(rows, dtype=torch.bfloat16),  # of few digits
    "list of tensors": lambda rows: list(tensor(rows)),
}


@every_case
def test_a_frame_of_another_byte_order_is_read_in_fit(case):
    X, y, new = case.data()
    fitted = reads_rows(case, (1, 8, 8)).fit(big_endian(rows_of(X)), y)
    expected = results(fitted_to_images(case), new)
    assert_alike(results(fitted, big_endian(rows_of(new))), expected)


@every_case
def test_tensors_of_rows_are_read_in_fit(case):
    X, y, new = case.data()
    estimator, rows = reads_rows(case, (1, 8, 8)), tensor(rows_of(X))
    with sklearn.config_context(array_api_dispatch=True):
        fitted = estimator.fit(rows, torch.tensor(y))
        found = results(fitted, tensor(rows_of(new)))
        if hasattr(fitted, "score"):
            assert fitted.score(rows, torch.tensor(y)) == fitted.score(X, y)
    assert_alike(found, results(fitted_to_images(case), new))


@pytest.mark.parametrize("form", FORMS)
@every_class
def test_rows_of_any_form_are_read_alike(case, form):
    fitted, (_, _, new) = fitted_to_images(case), case.data()
    for dispatch in (False, True):
        with sklearn.config_context(array_api_dispatch=dispatch):
            found = results(fitted, FORMS[form](rows_of(new)))
        assert_alike(found, results(fitted, new))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", GRAMS)
def test_functions_read_rows_of_any_form(name, form):
    rows = rows_of(digits(4)[0])
    expected = as_arrays(GRAMS[name](rbf(2.0), rows))
    found = as_arrays(GRAMS[name](rbf(2.0), FORMS[form](rows)))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def whole_numbers(X):
    return (8 * X).round()


KINDS = {
    "nullable whole numbers": lambda X: pd.DataFrame(whole_numbers(X)).astype("Int64"),
    "big-endian whole numbers": lambda X: pd.DataFrame(whole_numbers(X).astype(">i4")),
    "unsigned and boolean": lambda X: pd.DataFrame(
        {"a": np.abs(X[:, 0]).astype("uint8"), "b": X[:, 1] > 0.0}
    ),
    "nullable and boolean": lambda X: pd.DataFrame(
        {"a": pd.array(X[:, 0] > 0.0, "boolean"), "b": pd.array(X[:, 1], "Float32")}
    ),
    "big-endian half": lambda X: pd.DataFrame(X.astype(">f2")),
    "texts of numbers": lambda X: pd.DataFrame(X.round(3).astype(str).astype(object)),
    "polars of all kinds": lambda X: pl.DataFrame(
        {"a": X[:, 0] > 0.0, "b": np.abs(X[:, 1]).astype("uint16")}
    ),
    "missing": lambda X: (
        pd.DataFrame(whole_numbers(X)).astype("Int64").replace(1, None)
    ),
    "categories": lambda X: pd.DataFrame(X).astype("category"),
    "complex": lambda X: pd.DataFrame(X + 1j),
    "words": lambda X: pd.DataFrame({"a": X[:, 0], "b": "word"}),
    "sparse": lambda X: pd.DataFrame(X).astype(pd.SparseDtype("float64")),
    "missing columns": lambda X: pd.DataFrame(X)[[]],
}


@pytest.mark.filterwarnings("ignore:pandas.DataFrame with sparse columns")
@pytest.mark.parametrize("kind", KINDS)
def test_frames_are_read_as_scikit_learn_reads_them(kind):
    X, y = wave(12)
    frame = KINDS[kind](np.column_stack([X, 1.0 - X]))
    gp, reference = ConvNetGPRegressor(rbf(1.0)), GaussianProcessRegressor()
    try:
        read = reference.fit(frame, y).X_train_
    except (TypeError, ValueError) as refusal:
        with pytest.raises(type(refusal)) as caught:
            gp.fit(frame, y)
        theirs, _, _ = str(refusal).partition("\n")
        assert str(caught.value).startswith(
            theirs.replace(type(reference).__name__, type(gp).__name__)
        )
    else:
        np.testing.assert_array_equal(gp.fit(frame, y).X_train_, read)


@pytest.mark.parametrize("names", [["a", "a"], [0, 0]])
@every_class
def test_columns_of_one_name_are_refused(case, names):
    _, y, _ = case.data()
    frame = pd.DataFrame(RNG.random((len(y), 2)), columns=names)
    message = rf"2 columns of the name {names[0]!r}: rename"
    with pytest.raises(ValueError, match=message):
        case.new().fit(frame, y)
    with pytest.raises(ValueError, match=message):
        results(fitted_to_images(case), frame)


@pytest.mark.parametrize(
    "spoil", [torch.Tensor.to_sparse, lambda X: X.to("meta")], ids=["sparse", "meta"]
)
def test_tensors_without_numbers_in_memory_are_refused(spoil):
    X, y = (torch.as_tensor(part) for part in wave(6))
    for samples, targets in ((spoil(X), y), (X, spoil(y))):
        with pytest.raises(ValueError, match=r"^[Xy] is a tensor of layout .*to_dense"):
            ConvNetGPRegressor(rbf(1.0)).fit(samples, targets)


@pytest.mark.parametrize("first", ["photos/one.png", Path("photos/one.png")])
@pytest.mark.parametrize(
    "hold",
    [
        list,
        tuple,
        np.array,
        lambda X: np.array(X, dtype=object),
        lambda X: pd.Series(X, index=[7, 8]),
        lambda X: pl.Series(list(map(str, X))),
    ],
    ids=["list", "tuple", "array", "objects", "column", "polars"],
)
def test_paths_are_to_be_read(first, hold):
    X = hold([first, first])
    fitted = ConvNetGPClassifier(rbf()).fit([[0.0], [1.0]], [0, 1])
    for call in (
        lambda: ImageClassifier().fit(X, [0, 1]),
        lambda: fitted.predict(X),
        lambda: ScatteringTransform().fit(X),
        lambda: gram_matrix(rbf(1.0), X),
    ):
        with pytest.raises(
            ValueError, match=r"^X names .*one\.png.*: files .*ReadImages"
        ):
            call()


def test_a_path_alone_is_to_be_read():
    with pytest.raises(ValueError, match=r"^X names 'photos': .*load_image_folder"):
        ConvNetGPClassifier(rbf()).fit("photos", [0, 1])


def test_columns_of_targets_have_names_of_their_own():
    X, y = wave(6)
    frame = pd.DataFrame(np.column_stack([y, y]), columns=["a", "a"])
    for estimator in (ConvNetGPRegressor(rbf(1.0)), BinaryEncoder(4, max_iter=1)):
        with pytest.raises(ValueError, match=r"^y has 2 columns of the name 'a'"):
            estimator.fit(X, frame)


@pytest.mark.parametrize("form", [big_endian, tensor])
def test_kernels_are_resolved_by_samples_of_any_form(form):
    rows = rows_of(digits(6)[0])
    assert rbf().resolve(form(rows)) == rbf().resolve(rows)


@pytest.mark.parametrize("dispatch", [False, True])
def test_other_values_are_tensors_too(dispatch):
    X, y = digits(12)
    gp = ConvNetGPClassifier(rbf(2.0)).fit(X, y % 2)
    proba, weights = gp.predict_proba(X), np.linspace(0.5, 1.5, 12)
    numbers = wave(12)[1]
    encoder = BinaryEncoder(4, max_iter=1, early_stopping=False).fit(X, y % 2)
    codes, grid = encoder.transform(X), np.arange(24.0).reshape(12, 2)
    calls = [
        (gp.score, (X, y % 2, weights)),
        (lambda X, w: gp.latent_gradient(X, weights=w), (X, grid)),
        (lambda X, G: gram_vjp(rbf(1.0), X, X[:2], G)[1], (X, grid)),
        (encoder.decode, (codes,)),
        (metrics.expected_calibration_error, (y % 2, proba)),
        (metrics.brier_decomposition, (y % 2, proba)),
        (metrics.accuracy_rejection_auc_score, (y % 2, proba)),
        (metrics.negative_log_predictive_density, (numbers, numbers, weights)),
        (metrics.split_rhat, (grid.T,)),
    ]
    for call, values in calls:
        expected = as_arrays(call(*values))
        with sklearn.config_context(array_api_dispatch=dispatch):
            found = as_arrays(call(*map(of_type, values)))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def of_type(values):
    """Return a tensor, which requires derivatives if its type allows it."""
    found = torch.tensor(values)
    return found.requires_grad_() if found.is_floating_point() else found


def test_targets_and_weights_are_tensors_too():
    X, y = wave(12)
    weights = np.linspace(0.5, 1.5, 12)
    expected = ConvNetGPRegressor(rbf(1.0)).fit(X, y, weights)
    for dispatch in (False, True):
        with sklearn.config_context(array_api_dispatch=dispatch):
            gp = ConvNetGPRegressor(rbf(1.0)).fit(*map(tensor, (X, y, weights)))
        np.testing.assert_array_equal(gp.dual_coef_, expected.dual_coef_)


# Sequences that make no array


def ragged(n):
    """Return lists for n samples, the first one longer than the others."""
    return [[1.0, 2.0], *([[3.0]] * (n - 1))]


def in_cells(n):
    """Return an array for n samples whose cells hold lists."""
    cells = np.empty(n, dtype=object)
    cells[:] = ragged(n)
    return cells


NO_ARRAY = r"different (lengths|sizes)|in a cell|in its cells"
UNEVEN = pytest.mark.parametrize("uneven", [ragged, in_cells])


@UNEVEN
@every_class
def test_uneven_samples_and_targets_are_refused_in_fit(case, uneven):
    X, y, _ = case.data()
    known = inspect.signature(case.estimator.fit).parameters
    for name in {"X", "y", "sample_weight", "groups"} & set(known):
        given = {"X": X, **({"y": y} if "y" in known else {}), name: uneven(len(X))}
        if name == "y" and is_unsupervised(case):
            continue
        with pytest.raises(ValueError, match=NO_ARRAY) as told:
            case.new().fit(**given)
        assert name in str(told.value)


def is_unsupervised(case):
    """Return whether labels are not read."""
    return not is_classifier(case.estimator) and not is_regressor(case.estimator)


@UNEVEN
@every_class
def test_uneven_samples_are_refused_after_fit(case, uneven):
    fitted, new = fitted_to_images(case), case.data()[2]
    for name in ("predict", "predict_proba", "predict_latent", "sample_y", "transform"):
        if hasattr(fitted, name):
            with pytest.raises(ValueError, match=NO_ARRAY):
                getattr(fitted, name)(uneven(len(new)))
    for name, given in {"predict_latent": "diag", "latent_gradient": "weights"}.items():
        method = getattr(fitted, name, None)
        if method and given in inspect.signature(method).parameters:
            with pytest.raises(ValueError, match=NO_ARRAY):
                method(new, **{given: uneven(len(new))})


@UNEVEN
@pytest.mark.parametrize("name", ["BinaryEncoder", "KernelFlowsWarp"])
def test_transformers_refuse_uneven_labels(name, uneven):
    case = next(one for one in CLASSES if type(one.estimator).__name__ == name)
    X, _, _ = case.data()
    with pytest.raises(ValueError, match=NO_ARRAY):
        case.new().fit(X, uneven(len(X)))


@UNEVEN
def test_questions_metrics_and_displays_refuse_uneven_values(uneven):
    X, y = wave(20)
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X, y)
    four = uneven(4)
    calls = [
        lambda: questions.prediction_interval(gp, four),
        lambda: questions.attribution(gp, X[:4], four, method="occlusion"),
        lambda: questions.query(gp, four, 1),
        lambda: questions.select_threshold(four, np.ones((4, 2)), risk=0.1),
        lambda: metrics.reliability_table(four, np.ones((4, 2)) / 2.0),
        lambda: metrics.split_rhat(four),
        lambda: metrics.gaussian_wasserstein(four, np.eye(4)),
        lambda: gram_matrix(rbf(1.0), four),
        lambda: gram_vjp(rbf(1.0), X[:4], X[:4], four),
        lambda: display.SpectrumDisplay(four),
        lambda: display.SpectrumDisplay.from_gram(four),
        lambda: display.NoveltyDisplay.from_p_values(four),
        lambda: display.CompletionErrorDisplay(four, {}),
        lambda: display.CompletionErrorDisplay([0.1], {"a": four}),
        lambda: display.PredictionSetDisplay.from_sets(four, np.ones((4, 2))),
        lambda: display.PredictionSetDisplay.from_sets(np.ones((4, 2, 2)), four),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=NO_ARRAY):
            call()
