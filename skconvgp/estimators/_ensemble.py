"""KernelEnsembleClassifier: a weighted mixture of Gaussian processes."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin, clone, is_classifier
from sklearn.utils import Bunch, Tags, get_tags
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import check_is_fitted, column_or_1d, has_fit_parameter

from skconvgp._ambient import public
from skconvgp._documented import reference_page
from skconvgp._typing import FloatArray
from skconvgp.engine import host_values
from skconvgp.estimators._callbacks import BaseCallbacks
from skconvgp.estimators._candidates import (
    is_candidate,
    last_inputs,
    last_step,
    targets_of,
    usual_process,
)
from skconvgp.estimators._doors import process_of
from skconvgp.estimators._fit_plan import FitPlan, joint_plan
from skconvgp.estimators._gp import BaseGP
from skconvgp.estimators._labels import accuracy, logarithms, most_probable
from skconvgp.estimators._mixture_weights import (
    independent_share,
    left_out_probabilities,
    require_same_latents,
    require_same_targets,
    weights_by_evidence,
    weights_by_stacking,
)
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators._validation import check_weights
from skconvgp.estimators._warn import ask_each
from skconvgp.estimators.compute._progress import progress_of
from skconvgp.estimators.settings._checks import Given, word_of
from skconvgp.processes import Stage

# Method of an estimator that each kind of weights needs.
NEEDED = {"stacking": "loo_predict_proba", "evidence": "log_marginal_likelihood"}


class KernelEnsembleClassifier(ClassifierMixin, BaseCallbacks, _BaseComposition):
    """A mixture of Gaussian process classifiers, usually with different kernels.

    Each classifier is fitted to all samples, and the predicted probabilities are mixed.
    The weights follow from the training data: nothing is held out, and nothing is
    fitted twice. Stacking minimises the log loss of the mixture of leave-one-out
    probabilities; weights by evidence are the posterior probabilities of the kernels.

    Parameters
    ----------
    estimators : list of (str, estimator or kernel) tuples
        Names and classifiers of this package; each may be the last step of a pipeline.
        Clones of them are fitted. A kernel stands for a `ConvNetGPClassifier` with
        ``noise_variance="evidence"``, as in `selection_report`. Nested parameters are
        named as in ``name__kernel__lengthscale``, or ``name__lengthscale`` for a
        kernel.
    weights : "stacking" or "evidence", default="stacking"
        How the weights of the classifiers are chosen.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    weights_ : ndarray of shape (n_estimators,)
        Weights of the classifiers; they sum to 1.
    estimators_ : list of estimator
        The fitted classifiers.
    named_estimators_ : Bunch
        The fitted classifiers by name.
    n_features_in_ : int
        Number of values in a sample.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, if X has names that are all strings.

    Raises
    ------
    ValueError
        In `fit`, if names are not unique, if an estimator is no classifier or lacks the
        evidence or the leave-one-out probabilities that the weights need, or if
        classifiers cannot be compared: they know different classes, use a subset of the
        samples or, with weights by evidence, have different likelihoods.

    See Also
    --------
    selection_report : The kernels side by side.
    sklearn.ensemble.VotingClassifier : Mixes any classifiers, with weights that are
        given.
    sklearn.ensemble.StackingClassifier : Learns from cross-validated predictions.

    Notes
    -----
    At a thousand samples the log evidences of kernels differ by tens or hundreds, so
    that the weights by evidence are one for the best kernel and zero for all others:
    they select a kernel, as if one of them were the truth. Stacking looks for the
    mixture that predicts best, and gives weight to kernels that are right on different
    samples.

    References
    ----------
    Yao, Vehtari, Simpson and Gelman, "Using stacking to average Bayesian predictive
    distributions", 2018. Wolpert, "Stacked generalization", 1992.

    Examples
    --------
    >>> from sklearn.model_selection import train_test_split
    >>> from skconvgp import KernelEnsembleClassifier
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.kernels import convnet, rbf
    >>> X, y = load_digits_images(return_X_y=True)
    >>> X, X_test, y, y_test = train_test_split(
    ...     X, y, train_size=200, stratify=y, random_state=0
    ... )
    >>> ensemble = KernelEnsembleClassifier(
    ...     [("rbf", rbf(2.0)), ("network", convnet(depth=2, kernel_size=3))]
    ... )
    >>> ensemble.fit(X, y).score(X_test, y_test) > 0.9
    True
    >>> bool(ensemble.weights_.min() > 0.3)
    True
    """

    _get_doc_link = reference_page

    weights_: FloatArray
    estimators_: list[Any]
    _names: list[str]

    def __init__(self, estimators: Any, *, weights: str = "stacking") -> None:
        self.estimators = estimators
        self.weights = weights

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, including those of the estimators.

        Parameters
        ----------
        deep : bool, default=True
            Whether estimators and their parameters are included.

        Returns
        -------
        params : dict
            Values by name.
        """
        params: dict[str, Any] = self._get_params("estimators", deep=deep)
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, an estimator by its name, or parameters of an estimator.

        Parameters
        ----------
        **params : object
            Values by name.

        Returns
        -------
        self : object
            The estimator.
        """
        self._set_params("estimators", **params)
        return self

    @property
    def named_estimators_(self) -> Bunch:
        """The fitted classifiers by name."""
        return Bunch(**dict(zip(self._names, self.estimators_, strict=True)))

    def __sklearn_tags__(self) -> Tags:
        """Accept images if all estimators do, and a Gram matrix if one of them does."""
        tags = super().__sklearn_tags__()
        inner = [get_tags(one).input_tags for one in _instances(self.estimators)]
        if inner:
            tags.input_tags.three_d_array = all(tag.three_d_array for tag in inner)
            tags.input_tags.pairwise = any(tag.pairwise for tag in inner)
        return tags

    @public_fit
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit each classifier, then choose the weights.

        Parameters
        ----------
        X : array-like
            Training images or vectors, as the classifiers take them.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), default=None
            A weight of 2 is the same as two equal samples, 0 the same as none.
            Pipelines and `KernelFlowsClassifier` take no sample weights.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        kind = Given.of(self).read("weights", word_of(NEEDED))
        named = self._require_candidates(NEEDED[kind])
        labels = column_or_1d(host_values(y, "y"), warn=True)
        fitted = _fit_each(named, X, labels, sample_weight)
        weights = check_weights(sample_weight, labels)
        is_used = weights > 0.0
        self._weigh(kind, fitted, labels[is_used], weights[is_used])
        self._keep(fitted)
        return self

    @public
    def plan(self, X: Any, y: Any = None, *, n_outputs: int | None = None) -> FitPlan:
        """Return what `fit` will take: seconds and bytes of each model.

        Parameters
        ----------
        X : array-like, or tuple of int
            Images or vectors as for `fit`, or their shape alone.
        y : array-like of shape (n,), default=None
            Labels as for `fit`; None makes some up.
        n_outputs : int, default=None
            Number of classes, if y is None; by default 10.

        Returns
        -------
        plan : FitPlan
            What `fit` will take. A stage is a model; pipelines are planned as their
            last step, with the samples that are given.
        """
        kind = Given.of(self).read("weights", word_of(NEEDED))
        named = self._require_candidates(NEEDED[kind])
        plans = {
            name: last_step(one).plan(X, y, n_outputs=n_outputs)
            for name, one in named.items()
        }
        return joint_plan(type(self).__name__, plans)

    @public
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of each sample.

        Parameters
        ----------
        X : array-like
            Images or vectors, as in `fit`.

        Returns
        -------
        labels : ndarray of shape (n,)
            Labels.
        """
        probabilities = self.predict_proba(X)
        return most_probable(self.classes_, probabilities)

    @public
    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the share of samples whose label is predicted correctly.

        Parameters
        ----------
        X : array-like
            Images or vectors, as in `fit`.
        y : array-like of shape (n,)
            True labels. A label that is not in `classes_` counts as a mistake, and
            causes a warning.
        sample_weight : array-like of shape (n,), default=None
            Weights.

        Returns
        -------
        score : float
            Accuracy.
        """
        return accuracy(self, X, y, sample_weight)

    @public
    def predict_latent(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        noise: bool = False,
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return mean and uncertainty of the mixture of the latent functions.

        Parameters
        ----------
        X : array-like
            Images or vectors, as in `fit`.
        return_std : bool, default=False
            Whether to return standard deviations.
        return_cov : bool, default=False
            Whether to return covariances instead of standard deviations.
        noise : bool, default=False
            Whether the uncertainty includes the observation noise of each classifier.

        Returns
        -------
        mean : ndarray of shape (n, n_classes)
            Latent means, mixed by `weights_`.
        std : ndarray of shape (n, n_classes)
            Standard deviations, with `return_std`; they include the differences between
            the means of the classifiers.
        cov : ndarray of shape (n, n, n_classes)
            Covariances, with `return_cov`; they include these differences too.

        Raises
        ------
        ValueError
            If the latent functions belong to different targets or links.
        """
        check_is_fitted(self)
        steps = list(map(last_step, self.estimators_))
        require_same_latents(steps)

        def latent_of(one: Any) -> Any:
            rows = last_inputs(one, X)
            return last_step(one).predict_latent(rows, return_std, return_cov, noise)

        latents = ask_each(self.named_estimators_, latent_of)
        if not return_std and not return_cov:
            return self._mix(latents)
        means, spreads = zip(*latents, strict=True)
        mean = self._mix(means)
        apart = np.stack(means) - mean
        if return_std:
            return mean, np.sqrt(self._mix(np.square(spreads) + apart**2))
        between = [one[:, None] * one for one in apart]
        return mean, self._mix(spreads) + self._mix(between)

    @public
    def log_marginal_likelihood(self) -> float:
        """Return the log evidence of the mixture, with equal prior weights.

        Returns
        -------
        evidence : float
            Logarithm of the mean of the evidences of the classifiers. If columns of the
            targets follow from the others, the mean is taken over evidences of
            independent columns, and scaled back to all columns.

        Raises
        ------
        ValueError
            If the classifiers have different targets.
        """
        check_is_fitted(self)
        steps = list(map(last_step, self.estimators_))
        require_same_targets(steps, "Evidences", "Use `loo_predict_proba`.")
        evidences = np.array([one.log_marginal_likelihood() for one in steps])
        share = independent_share(process_of(steps[0]), targets_of(steps[0]))
        return float((logsumexp(share * evidences) - np.log(len(steps))) / share)

    @public
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like
            Images or vectors, as in `fit`.

        Returns
        -------
        probabilities : ndarray of shape (n, n_classes)
            Rows sum to 1; columns in the order of `classes_`.
        """
        check_is_fitted(self)
        return self._mix(
            ask_each(self.named_estimators_, lambda one: one.predict_proba(X))
        )

    @public
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like
            Images or vectors, as in `fit`.

        Returns
        -------
        log_probabilities : ndarray of shape (n, n_classes)
            Logarithms of the probabilities; -inf where a probability is 0.
        """
        return logarithms(self.predict_proba(X))

    @public
    def loo_predict(self) -> NDArray[Any]:
        """Return the label that each training sample gets from all the others.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Labels.
        """
        probabilities = self.loo_predict_proba()
        return most_probable(self.classes_, probabilities)

    @public
    def loo_predict_proba(self) -> FloatArray:
        """Return the probabilities that each training sample gets from all the others.

        The result has a closed form, with the weights of the whole fit. Samples of
        weight 0 have no predictions.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns in the order of `classes_`.
        """
        check_is_fitted(self)
        self._require_candidates("loo_predict_proba")
        return self._mix(left_out_probabilities(self.named_estimators_))

    def _mix(self, arrays: Any) -> FloatArray:
        mixed: FloatArray = np.tensordot(self.weights_, arrays, axes=1)
        return mixed

    def _require_candidates(self, needed: str) -> dict[str, Any]:
        """Return the estimators by name; raise unless all have the method `needed`."""
        given = self.estimators
        pairs = given if isinstance(given, list | tuple) else []
        wrong = [pair for pair in pairs if not _is_pair(pair)]
        if wrong or not pairs:
            expected = "a list of one (name, estimator or kernel) tuple or more"
            Given.of(self).reject("estimators", expected, *wrong[:1])
        self._validate_names([name for name, _ in given])
        named = dict(zip([name for name, _ in given], _instances(given), strict=True))
        for name, one in named.items():
            is_process = is_classifier(one) and isinstance(last_step(one), BaseGP)
            if not is_process or not hasattr(last_step(one), needed):
                raise ValueError(
                    f"weights={self.weights!r} takes single classifiers of skconvgp "
                    f"with the method {needed!r}, such as ConvNetGPClassifier, alone "
                    f"or as the last step of a pipeline; {name!r} is {one!r}."
                )
        return named

    def _weigh(
        self,
        kind: str,
        fitted: dict[str, Any],
        labels: NDArray[Any],
        weights: FloatArray,
    ) -> None:
        """Set the classes, and the weights of fitted classifiers."""
        self.classes_ = np.unique(labels)
        self._require_classes(fitted)
        if kind == "evidence":
            self.weights_ = weights_by_evidence(fitted, len(labels))
        else:
            codes = np.searchsorted(self.classes_, labels)
            self.weights_ = weights_by_stacking(fitted, codes, weights)

    def _keep(self, fitted: dict[str, Any]) -> None:
        """Set the fitted classifiers, and the attributes that describe X."""
        self._names, self.estimators_ = list(fitted), list(fitted.values())
        first = self.estimators_[0]
        self.n_features_in_ = first.n_features_in_
        self.__dict__.pop("feature_names_in_", None)  # of another fit
        if hasattr(first, "feature_names_in_"):
            self.feature_names_in_ = first.feature_names_in_

    def _require_classes(self, fitted: dict[str, Any]) -> None:
        for name, one in fitted.items():
            if not np.array_equal(one.classes_, self.classes_):
                raise ValueError(
                    f"Estimators must know the same classes: {name!r} knows "
                    f"{one.classes_!r}, and y holds {self.classes_!r}."
                )


def _fit_each(
    named: dict[str, Any], X: Any, labels: NDArray[Any], sample_weight: Any
) -> dict[str, Any]:
    """Return fitted clones by name."""
    given = {} if sample_weight is None else {"sample_weight": sample_weight}
    _require_parameters(named, given)
    is_shown = any(getattr(one, "verbose", 0) for one in named.values())
    progress = progress_of(int(is_shown))
    stages = {
        id(one): f"model {i} of {len(named)}: {name}"
        for i, (name, one) in enumerate(named.items(), 1)
    }
    progress.expect(*(Stage(name, 1.0, "models") for name in stages.values()))

    def fit(one: Any) -> Any:
        with progress.inside(stages[id(one)]):
            return clone(one).fit(X, labels, **given)

    fitted = ask_each(named, fit)
    return dict(zip(named, fitted, strict=True))


def _require_parameters(named: dict[str, Any], given: dict[str, Any]) -> None:
    """Raise unless all estimators take these parameters in `fit`."""
    for name, one in named.items():
        for parameter in given:
            if not has_fit_parameter(one, parameter):
                raise ValueError(
                    f"{name!r} takes no `{parameter}`: it is {one!r}. Repeat samples, "
                    "or leave it out."
                )


def _instances(estimators: Any) -> list[Any]:
    """Return the estimators of well formed pairs; a kernel becomes an estimator."""
    pairs = estimators if isinstance(estimators, list | tuple) else []
    return [usual_process(pair[1], is_label=True) for pair in pairs if _is_pair(pair)]


def _is_pair(pair: object) -> bool:
    """Return whether it is a name with an estimator or a kernel."""
    return (
        isinstance(pair, list | tuple)
        and len(pair) == 2
        and isinstance(pair[0], str)
        and is_candidate(pair[1])
        and not isinstance(pair[1], type)
    )
