"""BayesianNetworkRegressor."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin

from skconvgp._ambient import public
from skconvgp._typing import FloatArray
from skconvgp.estimators._callbacks import FitTasks
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators._targets import (
    in_units,
    scale_targets,
    target_columns,
    varied,
    warn_of_constants,
)
from skconvgp.estimators._validation import make_generator
from skconvgp.estimators.networks._network import BayesianNetwork
from skconvgp.estimators.networks._network_fit import fit_networks, held_out_noise
from skconvgp.estimators.networks._network_prior import NetworkPrior, PriorChoice
from skconvgp.estimators.networks._network_samples import (
    NetworkSamples,
    NumberTargets,
    read_samples,
)
from skconvgp.estimators.networks._network_settings import (
    LEAST_FOR_NOISE,
    NetworkSettings,
    read_settings,
)
from skconvgp.estimators.networks._network_training import NetworkTraining
from skconvgp.estimators.settings._checks import AUTO, as_flag, is_auto
from skconvgp.estimators.settings._compute import Compute
from skconvgp.estimators.settings._types import (
    Dtype,
    ShapeOfImages,
)


class BayesianNetworkRegressor(RegressorMixin, MultiOutputMixin, BayesianNetwork):
    r"""Regressor by many draws of a finite neural network.

    The draws are trained at the same time, and their mean and spread are the
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
        process instead, in units of the scaled targets.
        "matched" chooses the variances of weights and biases of each layer for which
        wide networks resemble the Gaussian process of `kernel`.
    kernel : None or Kernel, default=None
        With prior="matched", the kernel.
    inference : "bootstrap", "ensemble" or "sghmc", default="bootstrap"
        "ensemble" trains each draw from a random start to a largest posterior density.
        "bootstrap" also adds noise to the targets, and pulls a draw to a random
        function or to random weights of the prior.
        "sghmc" draws from the posterior by Markov chains, stochastic gradient
        Hamiltonian Monte Carlo, up to an error of the step size.
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
    noise_variance : "auto", "evidence" or float, default="auto"
        Variance of the noise, in squared units of the scaled targets; all outputs have
        the same, so that an output of much more noise is better fitted by itself.
        "evidence" chooses it by the evidence of the Gaussian process with the kernel,
        or with that of wide networks; with a `network` and ``prior="weights"`` there is
        no kernel. "auto" is "evidence" with a kernel. With ``prior="weights"`` it
        begins there, and takes the most probable noise of held-out samples that at most
        five networks predict; then all samples are learned, but for those of
        `early_stopping`. It needs 50 that can be held out, of equal weight, and is
        "evidence" for fewer samples. Copies of samples make it too small. If a callback
        stops these networks, they are the draws, an ensemble whatever `inference` is.
    optimizer : None, "amplitude" or "evidence", default="evidence"
        With a kernel, "evidence" learns its hyperparameters and its mean
        variance, by the evidence of the Gaussian process on at most 1000 samples, which
        may have no weights other than 0 and 1. "amplitude" learns the mean variance
        alone, which takes one fit. None keeps the kernel as it is.
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
        layers; it gets images (n, c, h, w) or rows, and returns (n, n_outputs) numbers.
        It is evaluated in eval mode, without dropout. A parameter of one dimension has
        the prior variance `bias_variance`, any other one `weight_variance` divided by
        the product of its dimensions but the first.
    batch_size : "auto", None or int, default="auto"
        Number of samples in a step; None is all. With a kernel as prior, steps on some
        of the samples read its `features` in place of the kernel. "auto" is a fiftieth
        of the samples, at least 64 and at most 128; with a kernel as prior, and for
        "sghmc", it is None up to 5000 samples and further points, and 512 above.
    max_iter : "auto" or int, default="auto"
        Most epochs; "sghmc" uses it for the search for a noise alone. "auto" is 1500 if
        each step reads all samples, otherwise as many as make 7 steps for each sample,
        but 1000 at least and 3000 at most, and at least 60 epochs.
    learning_rate : "auto" or float, default="auto"
        Rate of Adam in the first step; it falls as a cosine. With "sghmc" the size of
        all steps, and the search for a noise has the rate 0.03. "auto" is 0.03, and
        0.01 for "sghmc".
    early_stopping : bool, default=False
        Whether some samples are held out, each draw keeps the parameters that are best
        on them, and training stops when no draw becomes better.
    validation_fraction : float, default=0.1
        Share of the samples that are then held out, or with noise_variance="auto".
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image for a `network` or for a kernel, as in
        :class:`ConvNetGPRegressor`. None gives a `network` the rows.
    normalize_y : bool, default=True
        Whether each output is shifted and scaled to mean 0 and standard deviation 1 for
        the fit. Predictions are in the units of y either way.
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
    draws_ : dict of ndarray of shape (n_draws, ...)
        By name, the parameters of all draws in units of their prior deviations.
    kernel_ : Kernel or None
        Covariance of the prior, in units of the scaled targets; for a prior of weights
        that of wide networks; None with a prior of the weights of a `network`.
    noise_variance_ : float
        Variance of the noise that was used, in squared units of the scaled targets.
    y_mean_, y_scale_ : ndarray of shape (n_outputs,)
        Numbers that were subtracted from the targets, and numbers that the difference
        was divided by.
    image_shape_ : tuple of int
        Shape (c, h, w) of the image that a row was read as.
    loss_curve_ : ndarray of shape (n_iter,)
        Mean negative log posterior density of the draws, up to a constant, in each
        epoch, or of the chains in each step.
    n_iter_ : int
        Number of epochs, or of steps of each chain.
    rhat_ : ndarray of shape (m, n_outputs)
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
    BayesianNetworkClassifier : The same for labels.
    ConvNetGPRegressor : Infinitely wide networks, with an exact posterior.
    sklearn.neural_network.MLPRegressor : One network, without uncertainty.

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
    "Bayesian optimization with robust Bayesian neural networks", 2016. Pearce,
    Leibfried and Brintrup, "Uncertainty in neural networks: approximately Bayesian
    ensembling", 2020. Kozyrskiy, PhD thesis, 2023, algorithm 1 and sections 6.3 and
    6.8.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp import BayesianNetworkRegressor
    >>> X = np.linspace(-2.0, 2.0, 30)[:, None]
    >>> model = BayesianNetworkRegressor((30,), max_iter=300, random_state=0)
    >>> mean, std = model.fit(X, np.sin(2.0 * X[:, 0])).predict(
    ...     [[0.5], [6.0]], return_std=True
    ... )
    >>> bool(abs(mean[0] - np.sin(1.0)) < 0.1), bool(std[1] > 3.0 * std[0])
    (True, True)
    """

    noise_variance_: float

    def __init__(
        self,
        hidden_layer_sizes: object = (100, 100),
        *,
        activation: str = "tanh",
        prior: object = "weights",
        kernel: object = None,
        inference: str = "bootstrap",
        n_draws: int = 20,
        n_chains: int = 4,
        burn_in: int = 3000,
        thin: int = 200,
        weight_variance: float = 2.0,
        bias_variance: float = 1.0,
        noise_variance: object = "auto",
        optimizer: object = "evidence",
        extra_points: float | ArrayLike = 0.1,
        function_noise: float = 1e-2,
        features: object = 1000,
        network: object = None,
        batch_size: object = "auto",
        max_iter: object = "auto",
        learning_rate: object = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        image_shape: ShapeOfImages = "auto",
        normalize_y: bool = True,
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
        self.n_draws = n_draws
        self.n_chains = n_chains
        self.burn_in = burn_in
        self.thin = thin
        self.weight_variance = weight_variance
        self.bias_variance = bias_variance
        self.noise_variance = noise_variance
        self.optimizer = optimizer
        self.extra_points = extra_points
        self.function_noise = function_noise
        self.features = features
        self.network = network
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.image_shape = image_shape
        self.normalize_y = normalize_y
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
        y : array-like of shape (n,) or (n, n_outputs)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            The noise variance of a sample is divided by its weight; a sample of weight
            0 is left out.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        is_open = is_auto(self.noise_variance)
        settings = read_settings(Compute.of(self), calibrate=AUTO if is_open else False)
        samples = read_samples(
            self, X, y, sample_weight, settings, multi_output=True, y_numeric=True
        )
        self._train(settings.for_samples(samples.weights, LEAST_FOR_NOISE), samples)
        return self

    @public
    def predict(
        self, X: Any, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the mean over draws and, on request, their standard deviation.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors.
        return_std : bool, default=False
            Whether to return standard deviations over draws, without noise.

        Returns
        -------
        mean : ndarray of shape (n,) or (n, n_outputs)
            Means, in units of y.
        std : ndarray of the same shape
            Standard deviations, with `return_std`.

        Raises
        ------
        ValueError
            With `return_std`, if there is only one draw.
        """
        return self.predict_latent(X, return_std)

    @public
    def predict_latent(
        self, X: Any, return_std: bool = False, noise: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the mean over draws, and their spread, of f or of y with `noise`.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors.
        return_std : bool, default=False
            Whether to return standard deviations.
        noise : bool, default=False
            Whether standard deviations include the observation noise.

        Returns
        -------
        mean : ndarray of shape (n,) or (n, n_outputs)
            Means, in units of y.
        std : ndarray of the same shape
            Standard deviations, with `return_std`.
        """
        draws = self._draws(X)
        mean: FloatArray = draws.mean(axis=0)
        if not return_std:
            return self._without_outputs(mean)
        variance = self._deviation(draws) ** 2
        if noise:
            variance = variance + self.noise_variance_ * self.y_scale_**2
        return self._without_outputs(mean), self._without_outputs(np.sqrt(variance))

    @public
    def sample_y(
        self, X: Any, n_samples: int | None = None, random_state: Any = None
    ) -> FloatArray:
        """Return draws of the function f at X.

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
        samples : ndarray of shape (n, n_samples) or (n, n_outputs, n_samples)
            Functions in units of y.
        """
        chosen = self._chosen(self._draws(X), n_samples, random_state)
        return chosen[:, 0] if self._is_single else chosen

    def _train(self, settings: NetworkSettings, samples: NetworkSamples) -> None:
        """Find the noise, if held-out samples tell it, and train the draws."""
        targets, prior, seed = self._targets(samples, settings)
        tasks, stopped = FitTasks(self, has_steps=True), None
        training = NetworkTraining(settings, samples, targets, prior, seed, tasks)
        training = training.of_all()
        training.require_room()
        if settings.calibrates and settings.has_usual_prior:
            start = self.noise_variance_
            self.noise_variance_, stopped = held_out_noise(training, targets, start)
            targets = targets.with_noise(self.noise_variance_ / start)
            training = replace(training, targets=targets)
        self._publish(stopped or fit_networks(training))

    def _targets(
        self, samples: NetworkSamples, settings: NetworkSettings
    ) -> tuple[NumberTargets, NetworkPrior, int]:
        """Return scaled targets, their prior and a seed; set units and noise."""
        self._is_single = samples.y.ndim == 1
        columns = target_columns(samples.y)
        self.y_mean_, self.y_scale_ = scale_targets(
            columns,
            samples.weights,
            is_scaled=settings.given.read("normalize_y", as_flag),
        )
        warn_of_constants(varied(columns, self.y_mean_), "the prior of the outputs")
        values = in_units(columns, self.y_mean_, self.y_scale_)
        seed = make_generator(self.random_state).initial_seed()
        choice = PriorChoice(settings, samples, seed)
        prior, self.noise_variance_ = choice.for_numbers(values)
        noise = self.noise_variance_ / samples.weights[:, None]
        return NumberTargets(values, noise), prior, seed

    def _draws(self, X: Any) -> FloatArray:
        """Return all draws (k, n, n_outputs) at X, in units of y."""
        outputs = self._outputs(X)
        return self.y_mean_ + self.y_scale_ * outputs

    def _without_outputs(self, values: FloatArray) -> FloatArray:
        """Drop the dimension of the outputs (n, n_outputs) if y had none."""
        return values[:, 0] if self._is_single else values
