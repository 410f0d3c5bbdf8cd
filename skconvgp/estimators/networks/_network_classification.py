"""BayesianNetworkClassifier."""

import math
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax
from sklearn.base import ClassifierMixin
from torch import Tensor

from skconvgp._ambient import public
from skconvgp._typing import FloatArray
from skconvgp.engine import rows_to_tensor, to_numpy
from skconvgp.estimators._callbacks import FitTasks
from skconvgp.estimators._labels import (
    accuracy,
    as_labels,
    logarithms,
    most_probable,
    require_classes,
)
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators._validation import make_generator
from skconvgp.estimators.networks._network import BayesianNetwork
from skconvgp.estimators.networks._network_calibration import (
    calibrated_temperature,
    mean_log_proba,
)
from skconvgp.estimators.networks._network_fit import fit_networks, held_out_temperature
from skconvgp.estimators.networks._network_prior import PriorChoice
from skconvgp.estimators.networks._network_samples import (
    CodeTargets,
    NetworkSamples,
    NumberTargets,
    read_samples,
)
from skconvgp.estimators.networks._network_settings import (
    LEAST_FOR_LABELS,
    NetworkSettings,
    read_settings,
)
from skconvgp.estimators.networks._network_training import NetworkTraining
from skconvgp.estimators.settings._checks import is_auto
from skconvgp.estimators.settings._compute import Compute
from skconvgp.estimators.settings._types import (
    Dtype,
    ShapeOfImages,
)
from skconvgp.likelihoods import Calibration, Dirichlet

DIRICHLET, SOFTMAX = "dirichlet", "softmax"
# Prior deviation of latent functions of outputs with variance 1
# (docs/adr/finite-networks.md).
SOFTMAX_SCALE = 10.0


class BayesianNetworkClassifier(ClassifierMixin, BayesianNetwork):
    r"""Classifier by many draws of a finite neural network.

    The draws are trained at the same time, and the mean of their probabilities is the
    prediction. Scale X to numbers near 1 first, as by
    :class:`~sklearn.preprocessing.StandardScaler` in a pipeline.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(100, 100)
        Units of each hidden layer; ``()`` is a linear model.
    activation : "tanh", "relu" or "erf", default="tanh"
        Activation between layers.
    prior : "weights", "matched" or Kernel, default="weights"
        "weights" gives weights and biases independent normal distributions. A kernel of
        :mod:`skconvgp.kernels` gives the outputs of the network the prior of a Gaussian
        process instead, in units of the scaled targets of the likelihood.
        "matched" chooses the variances of weights and biases of each layer for which
        wide networks resemble the Gaussian process of `kernel`.
    kernel : None or Kernel, default=None
        With prior="matched", the kernel.
    inference : "bootstrap", "ensemble" or "sghmc", default="bootstrap"
        "ensemble" trains each draw from a random start to a largest posterior density.
        "bootstrap" also adds noise to the targets, and pulls a draw to a random
        function or to random weights of the prior; it needs likelihood="dirichlet".
        "sghmc" draws from the posterior by Markov chains, stochastic gradient
        Hamiltonian Monte Carlo, up to an error of the step size.
    likelihood : "dirichlet", "softmax" or Dirichlet object, default="dirichlet"
        "dirichlet" turns labels into regression targets with a noise for each class,
        see :class:`~skconvgp.likelihoods.Dirichlet`; its `alpha_eps` must be a number.
        "softmax" uses the cross-entropy of the labels.
    n_draws : int, default=20
        Number of networks. With "sghmc" it is rounded up to a multiple of `n_chains`.
    n_chains : int, default=4
        Number of Markov chains of "sghmc".
    burn_in : int, default=3000
        Steps of a chain before its draws, in which step sizes adapt.
    thin : int, default=200
        Steps of a chain from one draw to the next.
    weight_variance : float, default=2.0
        Prior variance of weights, before a division by the fan-in; functions vary more
        quickly if it is larger. With a kernel as prior, the random networks that
        training begins with have it.
    bias_variance : float, default=1.0
        Prior variance of biases.
    optimizer : None, "amplitude" or "evidence", default="evidence"
        With a kernel and likelihood="dirichlet", "evidence" learns its
        hyperparameters and its mean variance, by the evidence of the Gaussian process
        on at most 1000 samples, which may have no weights other than 0 and 1.
        "amplitude" learns the mean variance alone, which takes one fit. None keeps the
        kernel as it is: its variance is then in units of the scaled targets.
    extra_points : float or array-like, default=0.1
        With a kernel as prior, further inputs at which the prior holds. A number is
        their share of the samples: they are uniform in the box of X, or Gaussian with
        the mean and variance of each pixel of images. An array has these inputs, in the
        shape of X, such as a grid where functions shall follow the kernel. With
        prior="matched" an array has the points at which kernels are compared.
    function_noise : float, default=1e-2
        With a kernel as prior, the variance that is added to it at each input, as a
        share of its mean variance.
    features : int, RandomFeatures or Nystrom, default=1000
        With a kernel as prior and a `batch_size`, the features whose products stand for
        the kernel, as in :class:`KernelFeatures`. A number asks for so many random
        features; for deep networks :class:`~skconvgp.completion.Nystrom` is more
        accurate.
    network : None or callable, default=None
        Called without arguments, makes a :class:`torch.nn.Module` that replaces the
        layers; it gets images (n, c, h, w) or rows, and returns (n, n_classes) numbers.
        It is evaluated in eval mode, without dropout. A parameter of one dimension has
        the prior variance `bias_variance`, any other one `weight_variance` divided by
        the product of its dimensions but the first.
    batch_size : "auto", None or int, default="auto"
        Number of samples in a step; None is all. With a kernel as prior, steps on some
        of the samples read its `features` in place of the kernel. "auto" is a fiftieth
        of the samples, at least 64 and at most 128; with a kernel as prior, and for
        "sghmc", it is None up to 5000 samples and further points, and 512 above.
    max_iter : "auto" or int, default="auto"
        Most epochs; not used by "sghmc". "auto" is 1500 if each step reads all samples,
        otherwise as many as make 7 steps for each sample, but 1000 at least and 3000 at
        most, and at least 60 epochs.
    learning_rate : "auto" or float, default="auto"
        Rate of Adam in the first step; it falls as a cosine. With "sghmc" the size of
        all steps. "auto" is 0.03, and 0.01 for "sghmc".
    early_stopping : bool, default=False
        Whether some samples are held out, each draw keeps the parameters that are best
        on them, and training stops when no draw becomes better.
    calibrate : bool or "auto", default="auto"
        Whether a temperature of the probabilities is found on samples that are held
        out. "auto" does so if 20 of them or more can be held out, of equal weight. At
        most five networks that do not learn them are trained first, and then all draws
        learn all samples. These networks take a quarter of the time of 20 large draws,
        and as long as 20 small ones; a kernel as prior is evaluated for them, too. If a
        callback stops them, they are the draws. With `early_stopping` and with "sghmc"
        there are none, and the draws do not learn the held-out samples.
    validation_fraction : float, default=0.1
        Share of the samples that are then held out, of each class all but one at most.
        If a large share leaves few to learn from, the temperature does not fit draws
        that learn all of them.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image for a `network` or for a kernel, as in
        :class:`ConvNetGPRegressor`. None gives a `network` the rows.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1" and the like. "auto" uses a GPU if there is one with
        enough free memory, otherwise the CPU.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of the training; "auto" is float32. Covariances of a kernel as prior,
        and predictions, are computed in float64.
    random_state : int, RandomState instance or None, default=None
        Seed of weights, noise, functions of the prior and batches.
    verbose : int, default=0
        1 shows progress on stderr.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    draws_ : dict of ndarray of shape (n_draws, ...)
        By name, the parameters of all draws in units of their prior deviations.
    kernel_ : Kernel or None
        Covariance of the prior, in units of the scaled targets; for a prior of weights
        that of wide networks; None with a prior of the weights of a `network`.
    latent_offset_ : ndarray of shape (n_classes,)
        Prior means of the latent functions.
    latent_scale_ : float
        Latent functions are outputs of a network times this number, plus the offset: 10
        for "softmax", else the root mean square of the targets.
    calibration_ : Calibration
        What divides the logarithms of the mean of the draws' probabilities, a
        temperature that is found on held-out samples; 1 if none is found.
    image_shape_ : tuple of int
        Shape (c, h, w) of the image that a row was read as.
    loss_curve_ : ndarray of shape (n_iter,)
        Mean negative log posterior density of the draws, up to a constant, in each
        epoch, or of the chains in each step.
    n_iter_ : int
        Number of epochs, or of steps of each chain.
    rhat_ : ndarray of shape (m, n_classes)
        Of outputs at the first m <= 50 training samples, how far the chains agree, see
        :func:`~skconvgp.metrics.split_rhat`; a warning is given above 1.1. Only with
        "sghmc", and absent if a callback stops it before 4 values can be compared. It
        says nothing of the error of the step size.
    fit_report_ : NetworkReport
        Record of the training.
    device_ : str
        Device of the training.
    n_features_in_ : int
        Number of values in a sample.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, if X has names that are all strings.

    Raises
    ------
    ValueError
        In `fit`, for data or settings that cannot be used; the message says what to do.
    FloatingPointError
        In `fit`, if all draws diverge, or all networks that hold out samples. A warning
        says how many did otherwise.
    TileMemoryError
        In `fit`, before training, if a step of all draws does not fit into the free
        memory.

    See Also
    --------
    BayesianNetworkRegressor : The same for numbers.
    ConvNetGPClassifier : Infinitely wide networks, with an exact posterior.
    sklearn.neural_network.MLPClassifier : One network.

    Notes
    -----
    **No inference is exact.** A bootstrap is exact for a model that is linear in its
    weights, such as ``hidden_layer_sizes=()``; for deeper networks each draw ends in
    one of many minima. Markov chains have an error of their step size. With a kernel as
    prior, no density of weights is transformed (the Jacobian is missing): the posterior
    follows from the product of the data with the density of the Gaussian process,
    evaluated at the outputs of the network.

    A step takes time proportional to the number of draws times the parameters times the
    inputs m; with a kernel also m squared, and m cubed once.

    References
    ----------
    Lakshminarayanan, Pritzel and Blundell, "Simple and scalable predictive uncertainty
    estimation using deep ensembles", 2017. Springenberg, Klein, Falkner and Hutter,
    "Bayesian optimization with robust Bayesian neural networks", 2016. Milios,
    Camoriano, Michiardi, Rosasco and Filippone, "Dirichlet-based Gaussian processes for
    large-scale calibrated classification", 2018. Kozyrskiy, PhD thesis, 2023, algorithm
    1 and sections 6.3 and 6.8.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp import BayesianNetworkClassifier
    >>> X = np.linspace(-2.0, 2.0, 30)[:, None]
    >>> model = BayesianNetworkClassifier((30,), max_iter=200, random_state=0)
    >>> model.fit(X, np.where(X[:, 0] > 0.0, "right", "left"))
    BayesianNetworkClassifier(hidden_layer_sizes=(30,), max_iter=200,
                              random_state=0)
    >>> model.predict([[-1.0], [1.5]]).tolist()
    ['left', 'right']
    """

    def __init__(
        self,
        hidden_layer_sizes: object = (100, 100),
        *,
        activation: str = "tanh",
        prior: object = "weights",
        kernel: object = None,
        inference: str = "bootstrap",
        likelihood: object = "dirichlet",
        n_draws: int = 20,
        n_chains: int = 4,
        burn_in: int = 3000,
        thin: int = 200,
        weight_variance: float = 2.0,
        bias_variance: float = 1.0,
        optimizer: object = "evidence",
        extra_points: float | ArrayLike = 0.1,
        function_noise: float = 1e-2,
        features: object = 1000,
        network: object = None,
        batch_size: object = "auto",
        max_iter: object = "auto",
        learning_rate: object = "auto",
        early_stopping: bool = False,
        calibrate: object = "auto",
        validation_fraction: float = 0.1,
        image_shape: ShapeOfImages = "auto",
        device: str = "auto",
        dtype: Dtype = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.prior = prior
        self.kernel = kernel
        self.inference = inference
        self.likelihood = likelihood
        self.n_draws = n_draws
        self.n_chains = n_chains
        self.burn_in = burn_in
        self.thin = thin
        self.weight_variance = weight_variance
        self.bias_variance = bias_variance
        self.optimizer = optimizer
        self.extra_points = extra_points
        self.function_noise = function_noise
        self.features = features
        self.network = network
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.early_stopping = early_stopping
        self.calibrate = calibrate
        self.validation_fraction = validation_fraction
        self.image_shape = image_shape
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose

    @public_fit
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train the draws.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Training images or vectors.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), default=None
            Weights of the log likelihood of each sample; a sample of weight 0 is left
            out.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        settings = read_settings(Compute.of(self), calibrate=self.calibrate)
        likelihood = self._likelihood(settings)
        samples = read_samples(self, X, y, sample_weight, settings, read_y=as_labels)
        settings = settings.for_samples(samples.weights, LEAST_FOR_LABELS)
        self._train(settings, samples, self._targets(samples, likelihood))
        return self

    @public
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors.

        Returns
        -------
        labels : ndarray of shape (n,)
            Labels.
        """
        probabilities = self.predict_proba(X)
        return most_probable(self.classes_, probabilities)

    @public
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class: the calibrated mean over the draws.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors.

        Returns
        -------
        probabilities : ndarray of shape (n, n_classes)
            Rows sum to 1; columns in the order of `classes_`.
        """
        log_proba = self._log_proba(self._outputs(X))
        latents, _ = self.calibration_.latents(log_proba, log_proba.new_empty(0))
        return to_numpy(latents.softmax(dim=1))

    @public
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors.

        Returns
        -------
        log_probabilities : ndarray of shape (n, n_classes)
            Logarithms of the probabilities; -inf where a probability is 0.
        """
        return logarithms(self.predict_proba(X))

    @public
    def predict_latent(
        self, X: Any, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the mean over draws of the latent functions, and their spread.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors.
        return_std : bool, default=False
            Whether to return standard deviations over draws.

        Returns
        -------
        mean : ndarray of shape (n, n_classes)
            Means. Probabilities are the mean over draws of a softmax, calibrated.
        std : ndarray of shape (n, n_classes)
            Standard deviations, with `return_std`.

        Raises
        ------
        ValueError
            With `return_std`, if there is only one draw.
        """
        draws = self._latents(self._outputs(X))
        mean: FloatArray = draws.mean(axis=0)
        return (mean, self._deviation(draws)) if return_std else mean

    @public
    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the share of samples whose label is predicted correctly.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors.
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
    def sample_y(
        self, X: Any, n_samples: int | None = None, random_state: Any = None
    ) -> FloatArray:
        """Return draws of the latent functions at X.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors.
        n_samples : int or None, default=None
            Number of draws, chosen at random; None returns all, the same functions in
            each call.
        random_state : int, RandomState instance or None, default=None
            Seed of the choice; None is the `random_state` of the estimator.

        Returns
        -------
        samples : ndarray of shape (n, n_classes, n_samples)
            Latent functions.
        """
        draws = self._latents(self._outputs(X))
        return self._chosen(draws, n_samples, random_state)

    def _likelihood(self, settings: NetworkSettings) -> Dirichlet | None:
        """Return the likelihood that makes targets; None for the cross-entropy."""
        given = self.likelihood
        if isinstance(given, Dirichlet):
            if isinstance(given.alpha_eps, str):
                expected = "a Dirichlet object whose `alpha_eps` is a number"
                settings.given.reject("likelihood", expected)
            return given
        if isinstance(given, str) and given == DIRICHLET:
            return Dirichlet()
        if not (isinstance(given, str) and given == SOFTMAX):
            expected = "'dirichlet', 'softmax' or a Dirichlet object"
            settings.given.reject("likelihood", expected)
        if settings.is_bootstrap:
            expected = (
                "'ensemble' or 'sghmc' with likelihood='softmax', which has no targets "
                "that noise can be added to"
            )
            settings.given.reject("inference", expected)
        return None

    def _targets(
        self, samples: NetworkSamples, likelihood: Dirichlet | None
    ) -> NumberTargets | CodeTargets:
        """Return targets of the labels or their codes; set classes and units."""
        self.classes_, codes = np.unique(samples.y, return_inverse=True)
        require_classes(self.classes_)
        weights, n_classes = samples.weights, len(self.classes_)
        self.latent_offset_, self.latent_scale_ = np.zeros(n_classes), SOFTMAX_SCALE
        if likelihood is None:
            return CodeTargets(codes, weights, n_classes, SOFTMAX_SCALE)
        counted = likelihood.targets(
            rows_to_tensor(codes), n_classes, rows_to_tensor(weights)
        )
        self.latent_offset_ = to_numpy(counted.offset)
        centred = to_numpy(counted.values) - self.latent_offset_
        square = float(np.average((centred**2).mean(axis=1), weights=weights))
        self.latent_scale_ = math.sqrt(square) if square > 0.0 else 1.0
        noise = to_numpy(cast("Tensor", counted.noise)) / self.latent_scale_**2
        values = centred / self.latent_scale_
        return NumberTargets(values, noise / weights[:, None], codes)

    def _train(
        self,
        settings: NetworkSettings,
        samples: NetworkSamples,
        targets: NumberTargets | CodeTargets,
    ) -> None:
        """Train the draws, and calibrate their probabilities."""
        may_hold_out = len(samples.rows) > len(self.classes_)
        if not may_hold_out and (
            settings.stops_early or not (is_auto(self.calibrate) or not self.calibrate)
        ):
            raise ValueError(
                "Each class has one sample, so that none can be held out: set "
                "early_stopping=False, and calibrate='auto' or False."
            )
        seed = make_generator(self.random_state).initial_seed()
        values = targets.values if isinstance(targets, NumberTargets) else None
        choice = PriorChoice(settings, samples, seed)
        prior = choice.for_labels(values, self.latent_scale_)
        tasks = FitTasks(self, has_steps=True)
        training = NetworkTraining(settings, samples, targets, prior, seed, tasks)
        self.calibration_ = Calibration()
        if targets.codes is not None and settings.calibrates and may_hold_out:
            self._calibrate(training, targets.codes)
        else:
            self._publish(fit_networks(training))

    def _calibrate(self, training: NetworkTraining, codes: NDArray[np.intp]) -> None:
        """Train the draws, and find the temperature on held-out samples.

        These are samples that no draw has learned from if there are such, for early
        stopping or because the draws are chains; otherwise those of a few draws that
        are trained before.
        """
        settings, samples = training.settings, training.samples
        if settings.stops_early or settings.sampling is not None:
            fitted = fit_networks(training)
            self._publish(fitted)
            held_out = fitted.result.held_out
            log_proba = self._log_proba(self._outputs_of(samples.rows[held_out]))
            weights = samples.weights[held_out]
            temperature = calibrated_temperature(log_proba, codes[held_out], weights)
        else:
            whole = training.of_all()
            whole.require_room()
            found = held_out_temperature(whole, codes, self._log_proba)
            temperature, stopped = found
            self._publish(stopped or fit_networks(whole))
        self.calibration_ = Calibration(temperature)

    def _latents(self, outputs: FloatArray) -> FloatArray:
        """Return the latent functions (k, n, n_classes) of outputs of all draws."""
        return self.latent_offset_ + self.latent_scale_ * outputs

    def _log_proba(self, outputs: FloatArray) -> Tensor:
        """Return logarithms (n, n_classes) of the mean probabilities of all draws."""
        return mean_log_proba(log_softmax(self._latents(outputs), axis=-1))
