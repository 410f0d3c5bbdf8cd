"""KernelFlowsWarp: moves inputs so that a kernel predicts the targets well."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted, column_or_1d
from torch import Tensor

from skconvgp._ambient import ordinary_state, public
from skconvgp._protocols import Objective
from skconvgp._typing import FloatArray
from skconvgp.backends import choose_backend
from skconvgp.engine import (
    Placement,
    compute_at,
    freeze,
    kernel_shape,
    rows_to_tensor,
    thaw,
    to_numpy,
)
from skconvgp.estimators._doors import Samples, read_new, read_training
from skconvgp.estimators._given import host_samples
from skconvgp.estimators._kernel_estimator import KernelEstimator
from skconvgp.estimators._labels import require_one_kind
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators._scale import warn_of_scale
from skconvgp.estimators._targets import target_columns
from skconvgp.estimators._validation import make_generator, warn_of_idle
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._progress import FLOW_STEPS, progress_of
from skconvgp.estimators.settings._checks import (
    AUTO,
    Given,
    as_count,
    as_kernel,
    as_positive,
    word_of,
)
from skconvgp.estimators.settings._compute import Compute
from skconvgp.estimators.settings._search import (
    as_batch_size,
    as_objective,
    require_room,
)
from skconvgp.estimators.settings._types import (
    Budget,
    ShapeOfImages,
)
from skconvgp.flows._batches import Batches
from skconvgp.flows._field import PointKernel, travel
from skconvgp.flows._warp import Flow, keeps_order
from skconvgp.kernels import Kernel, rbf
from skconvgp.processes import Stage

AUTO_BATCH = 128
FLOW = "flow"  # the stage of a fit
# With less, rounding errors of the factorisation move the points:
# docs/maths.rst, "Flows of points"
SMALLEST_NUGGET = 1e-5
HOST = torch.device("cpu")


class KernelFlowsWarp(OneToOneFeatureMixin, TransformerMixin, KernelEstimator):
    r"""Move the inputs so that a kernel predicts the targets well.

    A flow starts from the identity. Each step draws a batch :math:`f` of training
    samples and a part :math:`s` of it, and asks where each point of the batch should go
    so that the kernel predicts the batch better from the part:
    :math:`\hat g_i = -\partial \rho / \partial x_i`. A smooth field carries that to
    all points, those of the batch included,

    .. math:: G(x) = K_1(x, X_f) \left( K_1(X_f, X_f) + \eta I \right)^{-1} \hat g,
              \qquad x \leftarrow x + \epsilon \, G(x).

    The batches, the coefficients and the lengths of the steps are kept, so that new
    points are moved in the same way. An estimator may then be fitted to the moved
    points: one of rows if they are rows, one of images if they are images.

    Parameters
    ----------
    kernel : Kernel, default=None
        Covariance that should predict the targets; None is ``rbf()``. Its lengthscale
        is not learned: the points spread or gather instead.
    solver : "euler" or "rk45", default="euler"
        How a step follows its field. "euler" takes one step of full length; "rk45" is
        an adaptive Runge-Kutta method, with which points cannot cross.
    n_steps : int, default=100
        Number of steps; 0 leaves all points where they are.
    step_size : float, default=0.1
        Length of a step, in the unit that `step` chooses.
    step : "spread" or "original", default="spread"
        Unit of the length. "spread": in the first step the fastest point moves by
        `step_size` times the spread of the points, the root of their mean squared
        distance from the centre; later steps get shorter, down to zero. "original": no
        point moves by more than `step_size` times its distance from the origin, and
        steps do not get shorter.
    batch_size : "auto" or int, default="auto"
        Number of training samples in a batch; "auto" is 128, or all samples if there
        are fewer.
    objective : None, str or objective of :mod:`skconvgp.flows`, default=None
        Function that is minimised. None is ``Rho(kind="l2", noise_variance=1e-5)``, and
        a string is another `kind`. In :class:`~skconvgp.flows.Rho`, `sample_fraction`
        is the size of the part, and `noise_variance` must be 1e-5 or more.
    field_kernel : Kernel, default=None
        Covariance :math:`K_1` of the field; None is `kernel`.
    field_noise : float, default=1.0
        Ridge :math:`\eta` of the field, as a share of the sum of the prior variances of
        the batch. Small values make the field follow :math:`\hat g` in each point. With
        large values the field tends to :math:`K_1(x, X_f) \hat g`, the steepest descent
        among the smooth fields.
    interpolation : "complete" or "original", default="complete"
        "original" reproduces published results, with solver="euler" only: points of the
        batch move by :math:`\hat g` itself and others by the field, so that they may
        cross.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image for a kernel of images.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1" and the like. "auto" uses a GPU if there is one with
        enough free memory, otherwise the CPU.
    memory_budget : None, int or str, default=None
        Memory that tiles may use, in bytes or as in "2 GiB". None is half of the free
        memory.
    n_jobs : int, default=None
        Number of tiles that are computed at the same time.
    random_state : int, RandomState instance or None, default=None
        Seed of the batches.
    verbose : int, default=0
        1 shows progress on stderr.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_features)
        The moved training samples, as rows. ``transform`` moves them to the same
        points, except with ``interpolation="original"``, which treats them as new ones.
    rho_trace_ : ndarray of shape (n_steps,)
        Objective on the batch of each step; NaN if it is undefined, and then no point
        moves.
    is_monotone_ : bool or None
        Whether the training samples are still in order; None unless X has one feature.
    n_steps_ : int
        Steps in which points moved.
    kernel_, field_kernel_ : Kernel
        The kernels that were used.
    image_shape_ : tuple of int
        (c, h, w) as the kernel saw it.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if X has names that are all strings.

    Raises
    ------
    ValueError
        In `fit`, if a setting is wrong, or a batch is larger than the data.
    RuntimeError
        If ``solver="rk45"`` cannot follow a field.

    See Also
    --------
    skconvgp.flows.Rho : The objectives.
    ConvNetGPRegressor : Gaussian process to fit to the moved points.

    Notes
    -----
    Floating point targets are numbers, and each column is scaled to mean 0 and standard
    deviation 1. All other targets, integers included, are labels: each class becomes a
    column of mean 0. The targets are used in `fit` only.

    Images are returned as images. Steps of scikit-learn such as ``StandardScaler`` take
    rows: reshape images to ``X.reshape(len(X), -1)`` before the warp.

    The model holds 2 x n_steps x batch_size x n_features numbers, and moving a point
    costs n_steps x batch_size covariances, six times as many or more with "rk45". There
    is no inverse.

    A warp fits the training data very closely, so that a model fitted to the moved
    points underestimates its uncertainty. Choose between models by cross-validation of
    the whole pipeline.

    References
    ----------
    Owhadi and Yoo, "Kernel flows: from learning kernels from data into the abyss",
    2019, sections 5 and 6; Bin Khalid, 2022, chapter 4; Dormand and Prince, "A family
    of embedded Runge-Kutta formulae", 1980.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skconvgp import ConvNetGPRegressor, KernelFlowsWarp
    >>> from skconvgp.datasets import make_three_bumps
    >>> from skconvgp.kernels import rbf
    >>> X, y = make_three_bumps(80)
    >>> gp = ConvNetGPRegressor(rbf(lengthscale=4.0), noise_variance=1e-4)
    >>> warp = KernelFlowsWarp(rbf(lengthscale=4.0), random_state=0)
    >>> moved = make_pipeline(warp, gp).fit(X, y)
    >>> X_test, y_test = make_three_bumps(200)
    >>> f"{gp.fit(X, y).score(X_test, y_test):.2f}"
    '0.01'
    >>> f"{moved.fit(X, y).score(X_test, y_test):.2f}"
    '1.00'
    """

    _default_kernel = rbf

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        solver: str = "euler",
        n_steps: int = 100,
        step_size: float = 0.1,
        step: str = "spread",
        batch_size: str | int = "auto",
        objective: str | Objective | None = None,
        field_kernel: Kernel | None = None,
        field_noise: float = 1.0,
        interpolation: str = "complete",
        image_shape: ShapeOfImages = "auto",
        device: str = "auto",
        memory_budget: Budget = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.solver = solver
        self.n_steps = n_steps
        self.step_size = step_size
        self.step = step
        self.batch_size = batch_size
        self.objective = objective
        self.field_kernel = field_kernel
        self.field_noise = field_noise
        self.interpolation = interpolation
        self.image_shape = image_shape
        self.device = device
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        """Say that targets are needed."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @public_fit
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the steps, and move the training samples.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Training samples.
        y : array-like of shape (n,) or (n, k)
            Numbers or labels.

        Returns
        -------
        self : KernelFlowsWarp
            The fitted transformer.
        """
        self._require_kernels()
        checks: Any = {"multi_output": True, "ensure_min_samples": 2}
        samples = read_training(self, Compute.of(self), X, y, None, **checks)
        self._keep_kernels(samples)
        targets, codes = _targets(samples.y)
        flow = self._flow(len(targets))
        require_room(codes, flow.batch_size)
        self._learn(flow, _points(samples.rows), targets, codes)
        return self

    @public
    def transform(self, X: ArrayLike) -> FloatArray:
        """Move samples by the steps that were learned.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Samples.

        Returns
        -------
        X_moved : ndarray of the shape of X
            The moved samples, images as images; rows of a data frame if `set_output`
            asks for one.
        """
        check_is_fitted(self)
        points = _points(self._read_new(X))

        def move(placement: Placement) -> Tensor:
            kernel = self._covariances(self.field_kernel_, placement)
            return travel(points, [thaw(step, HOST) for step in self._steps], kernel)

        placement = Compute.of(self).placement(is_fitted=True)
        return self._like(X, to_numpy(compute_at(placement, move)))

    def staged_transform(self, X: ArrayLike) -> Iterator[FloatArray]:
        """Move samples step by step.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Samples.

        Yields
        ------
        X_moved : ndarray of the shape of X
            The samples before the first step, then after each step; as `transform`
            returns them.
        """
        stages = self._stages(X)
        while True:  # the state of torch is the caller's in between
            with ordinary_state():
                moved = next(stages, None)
            if moved is None:
                return
            yield moved

    def _stages(self, X: ArrayLike) -> Iterator[FloatArray]:
        check_is_fitted(self)
        points = _points(self._read_new(X))
        placement = Compute.of(self).placement(is_fitted=True)
        kernel = self._covariances(self.field_kernel_, placement)
        yield self._like(X, to_numpy(points))
        for step in self._steps:
            points = travel(points, [thaw(step, HOST)], kernel)
            yield self._like(X, to_numpy(points))

    def _require_kernels(self) -> None:
        """Raise unless the kernels are None or kernel objects."""
        for name in ("kernel", "field_kernel"):
            Given.of(self).read(name, as_kernel, usual=rbf())

    def _keep_kernels(self, samples: Samples) -> None:
        """Set the fitted kernels, and the scale of the samples."""
        basis = samples.basis.kernel_basis
        self.kernel_, self.image_shape_ = basis.kernel, basis.image_shape
        field_kernel = self.field_kernel or self.kernel_
        warn_of_idle(field_kernel)
        self.field_kernel_ = replace(basis, kernel=field_kernel).resolved().kernel
        self._mean_squares = samples.training.mean_squares

    def _learn(
        self, flow: Flow, points: Tensor, targets: FloatArray, codes: Tensor | None
    ) -> None:
        """Learn the steps, and set the attributes that follow; warn of no steps."""
        generator = make_generator(self.random_state)
        progress = progress_of(Compute.of(self).verbose)
        progress.expect(Stage(FLOW, flow.n_steps, FLOW_STEPS))
        show = progress(FLOW, unit=FLOW_STEPS, is_fit=True)

        def learn(placement: Placement) -> None:
            warp = flow.learn(
                points,
                rows_to_tensor(targets),
                Batches(len(points), codes, generator),
                self._covariances(self.kernel_, placement),
                self._covariances(self.field_kernel_, placement),
                show,
            )
            self.embedding_ = to_numpy(warp.points)
            self.is_monotone_ = keeps_order(points, warp.points)
            self.rho_trace_ = np.array(warp.values)
            self._steps = [freeze(step) for step in warp.steps]

        compute_at(Compute.of(self).placement(), learn)
        self.n_steps_ = len(self._steps)
        if flow.n_steps and not self.n_steps_:
            warn_caller(
                "KernelFlowsWarp has moved nothing: on every batch the objective is "
                "undefined, as for constant targets, or flat.",
                UserWarning,
            )

    def _flow(self, n_samples: int) -> Flow:
        """Return the checked settings."""
        given = Given.of(self)
        interpolation = given.read("interpolation", word_of(("complete", "original")))
        solver = given.read("solver", word_of(("euler", "rk45")))
        if interpolation == "original" and solver != "euler":
            given.reject("solver", "'euler' with interpolation='original'")
        step_size = given.read("step_size", as_positive)
        field_noise = given.read("field_noise", as_positive)
        return Flow(
            objective=self._objective(),
            n_steps=given.read("n_steps", as_count, least=0),
            batch_size=given.read(
                "batch_size", as_batch_size, n=n_samples, usual=AUTO_BATCH
            ),
            step_size=step_size,
            step=given.read("step", word_of(("spread", "original"))),
            solver=solver,
            field_noise=field_noise,
            is_complete=interpolation == "complete",
        )

    def _like(self, X: Any, rows: FloatArray) -> FloatArray:
        """Return moved samples in the shape of X, as rows if a frame is wanted."""
        wants_frame = _get_output_config("transform", self)["dense"] != "default"
        shape = getattr(host_samples(X), "shape", ())
        return rows if wants_frame or len(shape) < 3 else rows.reshape(shape)

    def _read_new(self, X: Any) -> NDArray[Any]:
        rows = read_new(self, X)
        warn_of_scale(rows, self._mean_squares)
        return rows

    def _objective(self) -> Objective:
        given = Given.of(self)
        if self.objective is None:
            given = given.but(objective="l2")
        objective = given.read("objective", as_objective, noise=SMALLEST_NUGGET)
        objective.count(2)  # raises for wrong settings before any work
        if not objective.noise_variance >= SMALLEST_NUGGET:
            expected = f"an objective with noise_variance >= {SMALLEST_NUGGET:g}"
            given.reject("objective", expected, objective)
        return objective

    def _covariances(self, kernel: Kernel, placement: Placement) -> PointKernel:
        shape = kernel_shape(kernel, self.image_shape_)
        kernel.check(shape)
        choice = choose_backend(kernel, shape, AUTO, placement.device)
        compute = Compute.of(self).but(dtype="float64")
        config, runner = compute.config(choice.name, placement)
        return PointKernel(choice, config, runner)


def _points(rows: NDArray[Any]) -> Tensor:
    return rows_to_tensor(rows).to(torch.float64)


def _targets(y: NDArray[Any]) -> tuple[FloatArray, Tensor | None]:
    """Return targets (n, k) of mean 0, and the codes (n,) of labels."""
    if y.ndim == 2 and y.shape[1] == 1 and y.dtype.kind != "f":
        y = column_or_1d(y, warn=True)
    if y.ndim > 1 or y.dtype.kind == "f":
        values = target_columns(y)
        centred = values - values.mean(axis=0)
        scale = centred.std(axis=0)
        return centred / np.where(scale > 0.0, scale, 1.0), None
    require_one_kind(y)
    classes, codes = np.unique(y, return_inverse=True)
    columns = np.eye(len(classes))[codes]
    return columns - columns.mean(axis=0), torch.from_numpy(codes)
