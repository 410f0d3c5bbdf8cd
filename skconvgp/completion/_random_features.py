"""RandomFeatures: random features of a kernel instead of its Gram matrix."""

from dataclasses import dataclass

from torch import Generator

from skconvgp._parts import Part
from skconvgp._protocols import FeatureMap, FeatureSource
from skconvgp._settings import is_int, require

__all__ = ["RandomFeatures"]

READOUTS = ("auto", "draw", "exact")
LEAST = 2  # a cosine and a sine


@dataclass(repr=False)
class RandomFeatures(Part):
    r"""Random features, whose inner products approximate the kernel.

    The kernel is replaced by :math:`\phi(x)^\top \phi(x')` with r random features, so
    that a fit costs :math:`n r^2` operations and a prediction r for each sample and
    output, whatever the number n of training samples. No entry of the Gram matrix is
    evaluated, and no training sample is kept.

    Parameters
    ----------
    n_features : int, default=2000
        About how many features r, at least 2. Errors of the kernel fall as
        :math:`r^{-1/2}`.
    readout : {"auto", "draw", "exact"}, default="auto"
        How features of a network are made; kernels for vectors ignore it. "draw":
        outputs of random networks. "exact": their last hidden maps, which leaves out
        the noise of the readout, with one feature for each channel and position; the
        last hidden layer has as many channels as make r features, and r must be enough
        for one. "auto" is "exact" if the last hidden map has a single position, as in
        dense networks.
    width : int, default=64
        Channels of all other hidden layers of a network. Their number limits the
        precision: twice as many halve the error, in four times the time.
    n_networks : int, default=1
        Random networks of which each gives an equal part of the features.
    orthogonal : bool, default=True
        Whether frequencies of :class:`~skconvgp.kernels.rbf`,
        :class:`~skconvgp.kernels.matern` and :class:`~skconvgp.kernels.arcsine` have
        orthogonal directions, which lowers errors; ignored for samples of one value.
    exact_diag : bool, default=True
        Whether each sample's features are scaled to the squared length k(x, x), so that
        prior variances are exact.

    Raises
    ------
    TypeError
        In `fit`, for a kernel without random features. The message names those that
        have some.
    ValueError
        In `fit`, for settings out of range, a solver, or a precomputed kernel: random
        features need the samples.

    See Also
    --------
    Nystrom : Features from columns of the Gram matrix, more precise for deep networks.
    skconvgp.KernelFeatures : The features themselves, in a pipeline.
    sklearn.kernel_approximation.RBFSampler : Random features of one kernel.

    Notes
    -----
    The model is the Gaussian process of the covariance :math:`\phi(x)^\top \phi(x')`:
    evidence, noise, leave-one-out values and calibration are exact for it.
    `observed_fraction` is not used. A fit takes n r² operations, the model keeps no
    sample, and the estimator has ``partial_fit``, which adds samples in the time of
    their features. If each class has a noise of its own, as with "dirichlet", a fit
    takes n r² + r³ operations more for each, and the model r² numbers. "laplace" is
    solved with n x n numbers, and has no ``partial_fit``; a search by `optimizer`
    learns with the exact process.

    All features of a network share the fluctuation of its hidden layers, which grows
    with depth: more features do not remove it, more channels or networks do. For deep
    convolutional networks :class:`Nystrom` is more accurate in the same time.

    References
    ----------
    Rahimi and Recht, "Random features for large-scale kernel machines", 2007. Yu et
    al., "Orthogonal random features", 2016. Cho and Saul, "Kernel methods for deep
    learning", 2009. Pham and Pagh, "Fast and scalable polynomial kernels via explicit
    feature maps", 2013. Kozyrskiy, PhD thesis, 2023, chapters 2 and 4.

    Examples
    --------
    >>> from skconvgp import ConvNetGPClassifier
    >>> from skconvgp.completion import RandomFeatures
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.kernels import rbf
    >>> X, y = load_digits_images(return_X_y=True)
    >>> part = RandomFeatures(n_features=500)
    >>> gp = ConvNetGPClassifier(rbf(2.0), completion=part, random_state=0)
    >>> gp.fit(X[:200], y[:200]).score(X[200:], y[200:]) > 0.8
    True
    """

    n_features: int = 2000
    readout: str = "auto"
    width: int = 64
    n_networks: int = 1
    orthogonal: bool = True
    exact_diag: bool = True

    def expand(self, source: FeatureSource, generator: Generator) -> FeatureMap:
        """Draw the features of a kernel.

        Parameters
        ----------
        source : FeatureSource
            The kernel.
        generator : torch.Generator
            Source of randomness.

        Returns
        -------
        features : FeatureMap
            Map of images to features.
        """
        require(self, "n_features", is_int(self.n_features, LEAST), "an int >= 2")
        is_word = isinstance(self.readout, str) and self.readout in READOUTS
        require(self, "readout", is_word, "'auto', 'draw' or 'exact'")
        for name in ("width", "n_networks"):
            require(self, name, is_int(getattr(self, name)), "an int >= 1")
        for name in ("orthogonal", "exact_diag"):
            is_flag = isinstance(getattr(self, name), bool)
            require(self, name, is_flag, "True or False")
        return source.feature_map(
            int(self.n_features),
            generator,
            readout=self.readout,
            width=int(self.width),
            n_networks=int(self.n_networks),
            orthogonal=self.orthogonal,
            exact_diag=self.exact_diag,
        )
