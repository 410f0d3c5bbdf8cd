"""BinaryEncoder: learned binary codes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted

from skconvgp._ambient import public
from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import Placement, compute_at, host_values, to_numpy, to_tensor
from skconvgp.estimators._callbacks import FitTasks
from skconvgp.estimators._doors import read_new
from skconvgp.estimators._labels import most_probable
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators._scale import warn_of_scale
from skconvgp.estimators._trained import TrainedEstimator
from skconvgp.estimators.networks._encoder_fit import (
    FittedEncoder,
    fit_encoder,
    inputs_for,
    logits_in_blocks,
)
from skconvgp.estimators.networks._encoder_head import CodeHead
from skconvgp.estimators.networks._encoder_samples import (
    CodedSamples,
    Labels,
    read_coded_samples,
)
from skconvgp.estimators.networks._encoder_settings import (
    CLASSES,
    NUMBERS,
    read_encoder_settings,
)
from skconvgp.estimators.settings._checks import DTYPES
from skconvgp.estimators.settings._compute import Compute
from skconvgp.estimators.settings._types import (
    Dtype,
    ShapeOfImages,
)
from skconvgp.networks import Encoder


class BinaryEncoder(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, TrainedEstimator, BaseEstimator
):
    r"""Binary codes that are learned from labels, from numbers or from samples alone.

    A network turns a sample into `n_bits` bits, such that a simple function of the bits
    predicts the label. Samples with equal labels get similar codes, which need little
    memory and are compared by counting different bits: supervised hashing. The codes
    are also what an optical device for random features takes.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits of a code.
    encoder : "linear", "lenet", "resnet" or callable, default="linear"
        The network. "linear" is one layer. "lenet" has two convolutions, "resnet" three
        and three residual blocks; both are for images of 8 x 8 pixels or more. These
        see X minus the mean of each column, divided by one number, the root of the mean
        variance of the columns: scale the columns of tables first, as by
        :class:`~sklearn.preprocessing.StandardScaler`. A function without arguments
        makes a :class:`torch.nn.Module` that returns (n, n_bits) numbers; it sees X as
        it is, and training begins with its parameters. Images reach it as
        (n, c, h, w), and rows as (n, d): see `image_shape`.
    head : "optical", Kernel or callable, default="optical"
        Features of codes, in which predictions are linear while the encoder is trained.
        "optical" is ``optical(centered=True)``, and a kernel stands for its random
        features. A function takes codes (n, n_bits) of type uint8 and returns features
        (n, r): it may ask a device, and needs no derivatives. Not used without y.
    n_features : int, default=2000
        Number of random features of a kernel.
    gradient : str, default="auto"
        How derivatives by the bits, which have none, are estimated: "score",
        "isolated", "analytic", "straight_through" or "feedback", see Notes. "auto" is
        "analytic" if the head has a closed form for it, and "score" otherwise. Not used
        without y.
    n_draws : int, default=8
        With "score" and "isolated", the number of random codes of a sample in a step.
    baseline : bool, default=True
        With "score" and "isolated", whether the mean of the other draws is subtracted
        from each, which mostly lowers the variance.
    alpha_encoder : float, default=1e-5
        Penalty of the sum of squares of the weights of the encoder.
    alpha_head : float, default=1e-6
        The same of the coefficients of the head, in training. Features have a length
        near 1.
    batch_size : int, default=128
        Number of samples in a step.
    max_iter : int, default=50
        Most epochs.
    learning_rate : "auto" or float, default="auto"
        Rate of Adam in the first step; it falls as a cosine. "auto" is 1e-3 for
        "resnet", whose many units would take too large steps together, and 1e-2
        otherwise.
    early_stopping : bool, default=True
        Whether some samples are held out, the parameters that are best on them are
        kept, and training stops after 10 epochs without better ones.
    validation_fraction : float, default=0.1
        Share of the samples that are then held out of the training of the encoder.
    target_type : "auto", "classes" or "numbers", default="auto"
        What y holds. "auto" reads numbers with decimals as numbers, and everything
        else, whole numbers included, as classes.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image for the encoder, as in
        :class:`ConvNetGPClassifier`; "linear" does not use it. None gives a module the
        rows.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1" and the like. "auto" uses a GPU if there is one with
        enough free memory, otherwise the CPU.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of the training. "auto" is float64 on the CPU, and float32 on a GPU.
    random_state : int, RandomState instance or None, default=None
        Seed of weights, features, codes, batches and held-out samples.
    verbose : int, default=0
        1 shows progress on stderr.

    Attributes
    ----------
    encoder_ : dict of ndarray
        Parameters of the encoder by their names.
    head_ : CodeHead
        The head of `decode`: `features`, `coef`, `intercept` and `alpha`, fitted to the
        final codes in closed form. Its penalty `alpha` is chosen by leave-one-out.
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted. Absent without labels.
    target_type_ : str
        "classes" or "numbers". Absent without y.
    image_shape_ : tuple of int
        Shape (c, h, w) of the image that a row was read as.
    loss_curve_ : ndarray of shape (n_iter,)
        Mean loss with penalties in each epoch: cross-entropy of labels, or squared
        error in units of the variance of the targets.
    n_iter_ : int
        Number of epochs.
    device_ : str
        Device of the training.
    dtype_ : str
        Precision of the training.
    n_features_in_ : int
        Number of values in a sample.
    feature_names_in_ : ndarray of shape (d,)
        Names of the columns of X, if X has names that are all strings.

    Raises
    ------
    ValueError
        In `fit`, for data or settings that cannot be used; the message says what to do.
    TypeError
        In `fit`, for a kernel as head that has no random features.
    FloatingPointError
        In `fit`, if the training diverges.
    TileMemoryError
        In `fit`, if a step does not fit into the free memory.

    See Also
    --------
    KernelFeatures : Features of a kernel, such as those of
        :class:`~skconvgp.kernels.optical` for codes.
    ConvNetGPClassifier : A classifier for codes, with ``optical()`` as kernel.
    sklearn.neighbors.KNeighborsClassifier : Search among codes, with
        ``metric="hamming"``.

    Notes
    -----
    A bit is 1 with the probability :math:`\sigma(a)` in training, where :math:`a` is an
    output of the network, and 1 if :math:`a > 0` afterwards.

    - "score": the gradient of the expected loss, as the mean over random codes of the
      loss times the gradient of their log probability. The features may be any
      function.
    - "isolated": the gradient of the loss of mean features, from two sets of codes.
    - "analytic": the same without random codes, for :class:`~skconvgp.kernels.optical`
      with power 2, and :class:`~skconvgp.kernels.dot_product`.
    - "straight_through": derivatives by bits are taken as those by probabilities.
    - "feedback": errors of predictions, multiplied by a fixed random matrix, stand for
      derivatives by bits.

    Without y the model is an autoencoder: bits are :math:`\tanh(\beta a)`, and a linear
    function of them imitates the sample. From one epoch to the next :math:`\beta` is
    multiplied by a number such that it is 100 in epoch `max_iter`; early stopping may
    end the training, or keep parameters, before.

    `fit` warns if more than half of the bits are equal for all training samples, and if
    "auto" reads more than 50 different whole numbers as classes.

    A step takes time proportional to the batch times `n_bits` times `n_features`, with
    "score" also times `n_draws`. Refitting the head takes n times `n_features` squared
    operations, and memory for `n_features` squared numbers.

    References
    ----------
    Kozyrskiy, PhD thesis, 2023, chapter 3. Williams, "Simple statistical
    gradient-following algorithms for connectionist reinforcement learning", 1992. Kool,
    van Hoof and Welling, "Buy 4 REINFORCE samples, get a baseline for free!", 2019.
    Bengio, Léonard and Courville, "Estimating or propagating gradients through
    stochastic neurons for conditional computation", 2013. Nøkland, "Direct feedback
    alignment provides learning in deep neural networks", 2016.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from skconvgp import BinaryEncoder
    >>> from skconvgp.datasets import load_digits_images
    >>> X, y = load_digits_images(return_X_y=True)
    >>> encoder = BinaryEncoder(32, n_features=300, max_iter=20, random_state=0)
    >>> codes = encoder.fit_transform(X[:600], y[:600])
    >>> codes.shape, codes.dtype
    ((600, 32), dtype('uint8'))
    >>> search = make_pipeline(encoder, KNeighborsClassifier(5, metric="hamming"))
    >>> search.fit(X[:600], y[:600]).score(X[600:], y[600:]) > 0.85
    True
    """

    classes_: NDArray[Any]
    target_type_: str
    encoder_: dict[str, NDArray[Any]]
    head_: CodeHead
    image_shape_: ImageShape
    loss_curve_: FloatArray
    n_iter_: int
    device_: str
    dtype_: str

    _encoder: Encoder
    _n_features_out: int
    _mean_squares: tuple[float, float]

    def __init__(
        self,
        n_bits: int = 64,
        *,
        encoder: object = "linear",
        head: object = "optical",
        n_features: int = 2000,
        gradient: str = "auto",
        n_draws: int = 8,
        baseline: bool = True,
        alpha_encoder: float = 1e-5,
        alpha_head: float = 1e-6,
        batch_size: int = 128,
        max_iter: int = 50,
        learning_rate: float | str = "auto",
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        target_type: str = "auto",
        image_shape: ShapeOfImages = "auto",
        device: str = "auto",
        dtype: Dtype = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.encoder = encoder
        self.head = head
        self.n_features = n_features
        self.gradient = gradient
        self.n_draws = n_draws
        self.baseline = baseline
        self.alpha_encoder = alpha_encoder
        self.alpha_head = alpha_head
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.target_type = target_type
        self.image_shape = image_shape
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose

    @public_fit
    def fit(self, X: Any, y: Any = None) -> Self:
        """Train the encoder, and refit the head to its codes.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Training images or vectors.
        y : array-like of shape (n,) or (n, n_outputs), default=None
            Labels, or numbers to predict. Without y an autoencoder makes the codes.

        Returns
        -------
        self : BinaryEncoder
            The fitted transformer.
        """
        settings = read_encoder_settings(Compute.of(self))
        samples = read_coded_samples(self, X, y, settings)
        fitted = fit_encoder(settings, samples, FitTasks(self, has_steps=True))
        self._n_features_out = settings.n_bits
        return self._take(samples, fitted)

    @public
    def transform(self, X: Any) -> NDArray[np.uint8]:
        """Return the codes of samples.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors.

        Returns
        -------
        codes : ndarray of shape (n, n_bits)
            Zeros and ones, of type uint8; :func:`numpy.packbits` with ``axis=1`` puts
            eight in a byte.
        """
        return (self._logits(X) > 0.0).astype(np.uint8)

    @public
    def bit_probabilities(self, X: Any) -> FloatArray:
        """Return the probabilities with which bits are 1 in training.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors.

        Returns
        -------
        probabilities : ndarray of shape (n, n_bits)
            Probabilities; a bit of `transform` is 1 for those above 1/2.
        """
        probabilities: FloatArray = expit(self._logits(X))
        return probabilities

    @public
    def decode(self, codes: ArrayLike) -> NDArray[Any]:
        """Return the predictions of the head for codes.

        Parameters
        ----------
        codes : array-like of shape (n, n_bits)
            Zeros and ones, as `transform` returns them.

        Returns
        -------
        decoded : ndarray of shape (n,), (n, n_outputs) or (n, d)
            Labels or numbers, as they were given to `fit`. Without y, the rows of
            samples.

        Raises
        ------
        ValueError
            For codes of another length, or that hold other numbers.
        """
        check_is_fitted(self)
        outputs = self.head_.outputs(self._checked(codes))
        if hasattr(self, "classes_"):
            return most_probable(self.classes_, outputs)
        return outputs[:, 0] if self.head_.is_single else outputs

    def __sklearn_tags__(self) -> Tags:
        """Declare that codes have their own type."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _take(self, samples: CodedSamples, fitted: FittedEncoder) -> Self:
        """Publish a fit to samples."""
        self.image_shape_, self._mean_squares = (
            samples.image_shape,
            samples.mean_squares,
        )
        for name in ("classes_", "target_type_"):  # of another fit
            self.__dict__.pop(name, None)
        if isinstance(samples.decoded, Labels):
            self.target_type_, self.classes_ = CLASSES, samples.decoded.classes
        elif samples.is_supervised:
            self.target_type_ = NUMBERS
        self.encoder_, self.head_ = fitted.values, fitted.head
        self.loss_curve_ = np.array(fitted.losses)
        self.n_iter_ = len(fitted.losses)
        self.device_ = str(fitted.placement.device)
        self.dtype_ = str(fitted.dtype).removeprefix("torch.")
        self._encoder = fitted.encoder
        return self

    def _logits(self, X: Any) -> FloatArray:
        """Return the outputs (n, n_bits) of the encoder."""
        check_is_fitted(self)
        rows = read_new(self, X)
        warn_of_scale(rows, self._mean_squares)
        inputs = inputs_for(self._encoder, rows, self.image_shape_)

        def compute(placement: Placement) -> FloatArray:
            device, dtype = placement.device, DTYPES[self.dtype_]
            arrays = self.encoder_.items()
            values = {name: to_tensor(one, device, dtype) for name, one in arrays}
            blocks = logits_in_blocks(self._encoder, values, inputs)
            return np.concatenate([to_numpy(block) for block in blocks])

        return compute_at(Compute.of(self).placement(is_fitted=True), compute)

    def _checked(self, codes: ArrayLike) -> NDArray[np.uint8]:
        """Return codes as bytes."""
        values = check_array(host_values(codes, "codes"), input_name="codes")
        n_bits = self._n_features_out
        if values.shape[1] != n_bits:
            raise ValueError(
                f"codes must have {n_bits} bits, got {values.shape[1]}: unpack bytes "
                "by np.unpackbits(codes, axis=1, count=n_bits)."
            )
        if not np.isin(values, (0, 1)).all():
            raise ValueError("codes must hold zeros and ones, as `transform` returns.")
        bits: NDArray[np.uint8] = values.astype(np.uint8)
        return bits
