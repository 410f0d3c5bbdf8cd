"""BaseGP: an estimator that publishes a fitted Gaussian process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from skconvgp._ambient import public
from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import Placement, compute_at, to_numpy
from skconvgp.estimators._doors import (
    Samples,
    Training,
    new_rows,
    process_of,
    read_further,
    read_new,
)
from skconvgp.estimators._fact_warnings import warn_of_facts
from skconvgp.estimators._fit_plan import FitPlan
from skconvgp.estimators._fitting import PlannedFit
from skconvgp.estimators._given import host_samples
from skconvgp.estimators._growing import (
    base_to_grow,
    extended_by,
    extended_report,
)
from skconvgp.estimators._kernel_estimator import KernelEstimator
from skconvgp.estimators._landmarks import (
    warn_of_new_classes,
    warn_of_uncovered_classes,
)
from skconvgp.estimators._nystrom import warn_of_first_landmarks
from skconvgp.estimators._outline import Outline, no_models
from skconvgp.estimators._report import FitReport
from skconvgp.estimators._reporting import report_of
from skconvgp.estimators._samples import (
    BOOTSTRAP,
    PATHWISE,
    check_draws,
    draw_jointly,
    draws_functions,
    require_room,
    unfitted_prior,
)
from skconvgp.estimators._scale import warn_of_scale
from skconvgp.estimators._series import warn_of_basis
from skconvgp.estimators._shown import contrasts
from skconvgp.estimators._slopes import latent_slopes, require_slopes, without_sum
from skconvgp.estimators._validation import make_generator
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.estimators.settings._checks import PRECOMPUTED
from skconvgp.estimators.settings._compute import Compute
from skconvgp.estimators.settings._gp import GPSettings
from skconvgp.kernels import Kernel
from skconvgp.processes import (
    SUBSET,
    Draws,
    Fitted,
    FittedProcess,
    Latent,
    LeftOutValues,
    Problem,
    Run,
)

Value = TypeVar("Value")
CALIBRATION = "calibration"  # a stage


class BaseGP(KernelEstimator):
    """An estimator that publishes a fitted Gaussian process as its attributes."""

    # Whether draws need a fit, because the prior follows from training samples.
    _needs_fit: ClassVar[bool] = False
    _keeps_rows: ClassVar[bool] = True  # whether a fit keeps all training inputs
    _search_name: ClassVar[str] = "optimizer_result_"  # what a search is published as

    amplitude: object
    random_state: Any

    image_shape_: ImageShape | None
    fit_report_: FitReport
    backend_: str
    device_: str
    dtype_: str
    solver_: Any
    landmark_indices_: NDArray[np.intp]
    classes_: NDArray[Any]  # of classifiers

    _process: FittedProcess
    _training: Training

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a fitted process."""
        return hasattr(self, "_process")

    @property
    def kernel_(self) -> Kernel | str:
        """The kernel used, or "precomputed"."""
        basis = process_of(self).basis.kernel_basis
        return PRECOMPUTED if basis is None else basis.kernel

    @property
    def pool_(self) -> float:
        """Side of the squares of pixels that the kernel averages first."""
        return process_of(self).basis.pool

    @property
    def noise_variance_(self) -> float:
        """The relative noise variance used."""
        return process_of(self).model.noise

    @property
    def amplitude_(self) -> float | FloatArray:
        """Mean prior variance of the latent functions; an array if they differ."""
        model = process_of(self).model
        values = model.amplitude * model.scale**2
        return float(values[0]) if (values == values[0]).all() else values

    @property
    def dual_coef_(self) -> FloatArray:
        """Coefficients of the covariances with `X_train_` in the latent means."""
        return self._unless_neighbors(
            "dual_coef_", lambda process: process.dual * process.model.scale
        )

    @property
    def solver_state_(self) -> Any:
        """State that the solver keeps."""
        return self._unless_neighbors("solver_state_", lambda process: process.state)

    @property
    def X_train_(self) -> NDArray[Any] | None:
        """Training inputs that new ones are compared with."""
        return process_of(self).basis.kept_rows

    def _unless_neighbors(self, name: str, get: Callable[[Any], Value]) -> Value:
        """Return an attribute that a process of nearest neighbours does not have."""
        process = process_of(self)
        if not hasattr(process, "dual"):
            raise AttributeError(without_sum(process, type(self).__name__, name))
        return get(process)

    @public
    def log_marginal_likelihood(self) -> float:
        """Return the log evidence of the training targets.

        Returns
        -------
        log_marginal_likelihood : float
            Natural logarithm of the density of the targets under the model, summed over
            outputs. A sample of weight w counts as w observations. The evidence is
            infinite, with a warning, if there is neither noise nor jitter and some
            weights differ from 1, as those of versions of images do. It is NaN if an
            iterative solver ended too far from a solution; `fit` then warns.

        Examples
        --------
        >>> from skconvgp import ConvNetGPRegressor
        >>> from skconvgp.kernels import rbf
        >>> gp = ConvNetGPRegressor(rbf(1.0)).fit([[0.0], [1.0]], [0.0, 1.0])
        >>> round(gp.log_marginal_likelihood(), 2)
        -2.15
        """
        check_is_fitted(self)
        value = self._process.log_evidence(self._resources())
        if np.isinf(value):
            warn_caller(
                "The evidence is infinite: without noise, a sample of weight w is w "
                "observations of one number. Set `noise_variance` to a number > 0.",
                UserWarning,
            )
        return value

    @public
    def latent_gradient(self, X: Any, weights: ArrayLike | None = None) -> FloatArray:
        r"""Return the derivatives of latent means by the inputs.

        Means are :math:`m_c(x) = \sum_j \alpha_{jc} \, k(x, x_j)` up to a constant; the
        covariances are differentiated exactly, tile by tile.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors.
        weights : array-like of shape (n, k), default=None
            For each sample, weights of the k latent functions. The derivative of the
            weighted sum is returned, at the cost of one function. None returns the
            derivatives of each function.

        Returns
        -------
        gradient : ndarray of shape (n, ...), or (n, k, ...) without weights
            Each in the shape of a sample of X.

        Raises
        ------
        ValueError
            For a precomputed kernel, nearest neighbours, weights of another shape, or
            a part that sees images through a transformer of another package.

        See Also
        --------
        skconvgp.gram_vjp : Derivatives of any weighted sum of covariances.
        """
        check_is_fitted(self)
        require_slopes(self._process, getattr(self, "mean_", None))
        rows, shape = self._read_new(X), np.shape(host_samples(X))[1:]
        return latent_slopes(self._process, rows, shape, weights, self._resources())

    @public
    def plan(self, X: Any, y: Any = None, *, n_outputs: int | None = None) -> FitPlan:
        """Return what `fit` will take: stages, seconds and bytes, before any work.

        The way, its reason and the memory are those that `fit` itself would choose
        now. Seconds follow from a calibration, which takes about a second and is kept.
        The estimator is not changed. A search for the kernel may end earlier.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w), or tuple of int
            Images or vectors as for `fit`, or their shape alone.
        y : array-like of shape (n,) or (n, n_outputs), default=None
            Labels or targets as for `fit`; None makes some up.
        n_outputs : int, default=None
            Number of classes or outputs, if y is None; by default 10 or 1.

        Returns
        -------
        plan : FitPlan
            What `fit` will take; print it to see a table.

        Raises
        ------
        ValueError
            As `fit`, for samples and settings that it refuses.
        """
        apart: Any = clone(self)
        is_label = is_classifier(apart)
        outline = Outline(
            type(self).__name__,
            apart.get_params(deep=False),
            self._keeps_rows,
            is_label,
            apart._read_labels if is_label else apart._read_targets,
            apart._planned,
            apart._label_models if is_label else no_models,
        )
        return outline.plan(X, y, n_outputs)

    def _publish(self, planned: PlannedFit, fitted: Fitted, run: Run) -> None:
        """Set the attributes that follow from a fit, and warn of its facts."""
        data, solver, landmarks = planned.data, planned.plan.solver, fitted.landmarks
        training = data.samples.training
        process, record = fitted.process, fitted.record
        basis = process.basis.report(run)
        self.backend_ = basis.backend
        self.dtype_ = str(basis.dtype).removeprefix("torch.")
        self.device_ = str(run.placement.device)
        for name in ("landmark_indices_", self._search_name):  # of another fit
            self.__dict__.pop(name, None)
        if landmarks is not None:
            self.landmark_indices_ = landmarks
            if planned.plan.way != SUBSET:  # whose samples are no landmarks
                training = training.with_landmarks_at(data.problem.rows, landmarks)
        self._process, self._training = process, training.take(fitted.used)
        if solver is not None:  # the one of the fit, which the plan may fall back to
            self.solver_ = getattr(getattr(process, "posterior", 0), "solver", solver)
        if planned.search is not None:
            setattr(self, self._search_name, planned.search)
        more = {"kernel_reason": self._kernel_reason()} | planned.report_of(fitted)
        self.fit_report_ = report_of(process, record, run, more)
        warn_of_facts(record.facts)
        if training.codes is not None:
            completion = getattr(self, "completion", self)
            warn_of_uncovered_classes(self.classes_, completion, training, fitted)

    def _read_further(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        *,
        read_y: Callable[[Any], NDArray[Any]] = np.asarray,
        **options: Any,
    ) -> Samples:
        """Return samples to add; parameters are as in `read_training`."""
        given, training = (X, y, sample_weight), self._training
        base = base_to_grow(type(self).__name__, self._process)
        further = read_further(self, *given, base, training, **options)
        return replace(further, y=read_y(further.y))

    def _extend(self, problem: Problem, samples: Samples) -> None:
        """Add samples to the process; its basis, its noise and units stay."""
        process, earlier, settings = self._process, self._training, GPSettings.of(self)
        if "landmarks" in settings.values:
            warn_of_first_landmarks(settings, process, earlier)
        if hasattr(self, "landmark_indices_") and problem.codes is not None:
            new = self.classes_[earlier.new_codes(problem.codes)]
            warn_of_new_classes(new, self.landmark_indices_)
        resources = self._resources()
        extended, record = extended_by(
            problem, samples, process, earlier, settings, resources
        )
        warn_of_facts(record.facts)
        self._process = extended
        self._training = earlier.join(samples.training, problem.rows)
        self.fit_report_ = extended_report(self.fit_report_, extended, record)

    def _kernel_reason(self) -> str:
        """Return why the default kernel may suit the samples badly, if it may."""
        default, shape = type(self)._default_kernel(), self.image_shape_
        is_vector = shape is not None and shape[0] > 1 and shape[1:] == (1, 1)
        if self.kernel is not None or not (is_vector and default.is_spatial):
            return ""
        return (
            f"the default, {default!r}, is for images, and rows were read as vectors: "
            "rbf() is for tables"
        )

    def _resources(self) -> EstimatorResources:
        """Return the resources that predictions may use."""
        return EstimatorResources(Compute.of(self), process_of(self).basis)

    def _read_new(self, X: Any) -> NDArray[Any]:
        """Return new samples as rows; warn if their scale differs from `fit`."""
        check_is_fitted(self)
        rows = read_new(self, X)
        if self._process.basis.knows_variances:
            warn_of_scale(rows, self._training.mean_squares)
        return rows

    def _latent(
        self,
        rows: NDArray[Any],
        diag: Any,
        *,
        needs_var: bool = False,
        needs_cov: bool = False,
        is_mean_enough: bool = False,
    ) -> Latent:
        """Return the posterior at rows; the mean of their variances may be enough."""
        process = self._process
        if is_mean_enough:
            process = process.of_mean_variance()
        warn_of_basis(process.basis, rows)
        latent = process.latent(
            new_rows(process.basis, rows, diag, is_needed=needs_var),
            self._resources(),
            needs_var=needs_var,
            needs_cov=needs_cov,
        )
        warn_of_facts(latent.facts)
        has_rows = process.basis.knows_variances
        return replace(latent, contrast=contrasts(rows)) if has_rows else latent

    def _sample(
        self, X: Any, n_samples: int, random_state: Any, method: str, n_features: int
    ) -> tuple[FloatArray, NDArray[Any] | None]:
        """Draw latent functions (n, k, n_samples); return also the rows of X.

        Before `fit` draws are from the prior, and there are no rows.
        """
        seed = self.random_state if random_state is None else random_state
        check_draws(n_samples, method, n_features)
        if self._needs_fit or method in (PATHWISE, BOOTSTRAP):
            check_is_fitted(self)
        process: Any = getattr(self, "_process", None)
        are_functions = draws_functions(process, X, method)
        require_room(process, X, n_samples, are_functions=are_functions)
        generator = make_generator(seed)
        rows: Any = None if process is None else self._read_new(X)
        if are_functions:
            warn_of_basis(self._process.basis, rows)
            wanted = Draws(n_samples, generator, n_features, method == BOOTSTRAP)
            functions, facts = self._process.draws(rows, wanted, self._resources())
            warn_of_facts(facts)
            return functions, rows
        if process is None:
            cov, scale = unfitted_prior(self, X)
            mean, size = np.zeros((len(cov), 1)), 1.0
        else:
            latent = self._latent(rows, None, needs_cov=True)
            mean, cov, size = latent.mean, latent.cov, latent.cov_scale
            scale = np.sqrt(process.model.function_variances)
        return draw_jointly(mean, cov, size, scale, n_samples, generator), rows

    def _uncertain_latent(
        self, rows: NDArray[Any], diag: Any, return_std: bool, return_cov: bool
    ) -> Latent:
        if return_std and return_cov:
            raise ValueError(
                "`return_std` and `return_cov` cannot both be True: the standard "
                "deviations are the square roots of the diagonal of the covariance."
            )
        return self._latent(rows, diag, needs_var=return_std, needs_cov=return_cov)

    def _with_uncertainty(
        self,
        latent: Latent,
        mean: FloatArray,
        return_std: bool,
        return_cov: bool,
        noise: bool,
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the mean, with deviations (n, k) or covariances (n, n, k) if asked."""
        model = self._process.model
        variances, added = (
            model.function_variances,
            model.observation_noise * bool(noise),
        )
        if return_std:
            return mean, np.sqrt((latent.var + added) * variances) * model.scale
        if return_cov:
            cov = latent.cov + np.eye(len(mean))[:, :, None] * added
            return mean, cov * variances * model.scale**2
        return mean

    def _leave_out(self, *, is_subset_enough: bool = False) -> LeftOutValues:
        """Return left-out latent functions; of a subset, if others cost much."""
        check_is_fitted(self)
        if not self._process.has_left_out:
            raise ValueError(
                "Leave-one-out predictions need an accurate solution, but "
                f"{self.solver_!r} ended `fit` with a residual of "
                f"{self.fit_report_.residual:.1e}: raise `noise_variance`, or allow "
                "more iterations."
            )
        left_out = self._process.leave_out(
            self._resources(), is_subset_enough=is_subset_enough
        )
        warn_of_facts(left_out.facts)
        return left_out

    def _gram_of(self, rows: NDArray[Any], dtype: str | None = None) -> FloatArray:
        """Return prior covariances of samples as the process sees them.

        Parameters
        ----------
        rows : ndarray of shape (n, d)
            Samples; the Gram matrix (n, n) itself if precomputed.
        dtype : str, optional
            Precision of tiles; by default that of the fit. Ignored for a sum of
            kernels.
        """
        basis, unit = self._process.basis, self._process.model.mean_diag
        resources = self._resources()

        def evaluate(placement: Placement) -> FloatArray:
            run = resources.run(placement).quiet()
            return to_numpy(basis.gram_of(rows, run, unit, dtype))

        return compute_at(resources.placement(0), evaluate)
