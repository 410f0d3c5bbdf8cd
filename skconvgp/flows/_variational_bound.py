"""VariationalBound: settings of learning by the lower bound over all images."""

import os
from dataclasses import dataclass

from skconvgp._parts import Part
from skconvgp._settings import is_int, is_number, require


@dataclass(repr=False)
class VariationalBound(Part):
    r"""Learning by the variational lower bound of the evidence, over all images.

    Each step reads a batch of images. It moves the posterior of the inducing variables
    along the natural gradient, and hyperparameters, weights and inducing patches by
    Adam along the exact gradient of

    .. math::

        \sum_i \mathrm{E}_{q(f_i)} \log p(y_i \mid f_i)
        - \mathrm{KL}(q(u) \,\|\, p(u)),

    whose first term the batch estimates. Steps begin at the posterior of label
    regression, and hyperparameters move after a tenth of them. The lengths of their
    steps rise from zero at first, and fall to zero as half a cosine.

    Parameters
    ----------
    max_iter : int, default=3000
        Number of steps.
    batch_size : int, default=200
        Largest number of images of a step.
    learning_rate : float, default=0.005
        Largest length of a step, in the logarithm of a hyperparameter, and in weights
        of positions. That of values of inducing patches is three tenths of it, in their
        standard deviations. All of them move at once and the posterior has to follow:
        a rate that is too large lowers the bound at first. If the posterior moves at
        less than the rate 0.1, because a batch has fewer images than features, steps
        are shorter in proportion.
    cache_dir : None, str or path, default=None
        Folder that keeps the state of the search, a file for each set of images,
        targets and settings, among them the seed: `random_state` must be a number. A
        `fit` that was stopped goes on there. Another call with the same of them has
        the result at once.

    Raises
    ------
    ValueError
        In `fit`, for a wrong setting.

    See Also
    --------
    LBFGS : Learns on 2000 images, by criteria in closed form.

    Notes
    -----
    For r features and k latent functions, a step takes :math:`O(k (r^3 + b r^2))`
    operations for a batch of b images beside those of responses, and at most 4 r^2 k
    numbers are held. Of fewer than 10 steps none is a tenth, so that all move the
    kernel. The trace has minus the bound for each image as a batch estimates it; its
    divergence is computed in one of every `max_iter` / 60 steps, and in the last one.

    Labels that decide their noise, "dirichlet" and "beta", have no bound here. After
    targets with Gaussian noise, the fit is in closed form and chooses its noise again.

    References
    ----------
    van der Wilk, Rasmussen and Hensman, "Convolutional Gaussian processes", 2017,
    sections 3.2 and 4; Hensman, Matthews and Ghahramani, "Scalable variational Gaussian
    process classification", 2015, equation 19; Khan and Lin, "Conjugate-computation
    variational inference", 2017 (natural gradients).

    Examples
    --------
    >>> from skconvgp import PatchGPClassifier
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.flows import VariationalBound
    >>> from skconvgp.kernels import PatchKernel
    >>> X, y = load_digits_images(return_X_y=True)
    >>> kernel = PatchKernel(location_lengthscale=None, weights="learned")
    >>> bound = VariationalBound(max_iter=20, batch_size=100)
    >>> gp = PatchGPClassifier(
    ...     kernel,
    ...     n_inducing=16,
    ...     inducing="learned",
    ...     likelihood="softmax",
    ...     optimizer=bound,
    ...     random_state=0,
    ... )
    >>> gp = gp.fit(X[:200], y[:200])
    >>> gp.optimizer_result_.rho < gp.optimizer_result_.start_rho
    True
    """

    max_iter: int = 3000
    batch_size: int = 200
    learning_rate: float = 0.005
    cache_dir: str | os.PathLike[str] | None = None

    def check(self) -> None:
        """Raise a ValueError if a setting cannot be used."""
        for name in ("max_iter", "batch_size"):
            require(self, name, is_int(getattr(self, name)), "an int >= 1")
        is_rate = is_number(self.learning_rate)
        require(self, "learning_rate", is_rate, "a finite number > 0")
        folder = self.cache_dir
        is_path = isinstance(folder, str | os.PathLike) and bool(os.fspath(folder))
        require(self, "cache_dir", folder is None or is_path, "None or a path")
