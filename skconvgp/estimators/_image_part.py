"""ImagePart."""

from __future__ import annotations

from dataclasses import dataclass

from skconvgp.kernels import Kernel


@dataclass(frozen=True)
class ImagePart:
    """A part of the sum of :class:`~skconvgp.ImageClassifier`, with a name.

    A part compares images as a view shows them, by a kernel. Left-out images choose its
    weight.

    Parameters
    ----------
    name : str
        What the report calls the part, and what `part_weights` may name.
    view : transformer or None
        Transformer with `fit` and `transform`. A copy is fitted to the training images,
        an array (n, c, h, w). It returns images (n, c', h', w') or rows (n, d), such as
        an embedding. None shows the images themselves.
    kernel : Kernel
        Kernel of :mod:`skconvgp.kernels` for what the view shows.
    cost : float, default=1.0
        Milliseconds of a core that the part takes for a new image, about. Of two parts
        that say nearly the same the dearer one is dropped.

    See Also
    --------
    ImageClassifier : Classifier by a sum of parts.
    ImageRegressor : The same for real-valued targets.

    Examples
    --------
    >>> from skconvgp import ImageClassifier, ImagePart
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.kernels import rbf
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> X, y = load_digits_images(return_X_y=True)
    >>> means = FunctionTransformer(lambda images: images.mean((1, 3)))
    >>> rows = ImagePart("means of rows", means, rbf(), cost=0.01)
    >>> gp = ImageClassifier(["auto", rows], random_state=0).fit(X[:100], y[:100])
    >>> gp.fit_report_.part_names[-1]
    'means of rows'
    """

    name: str
    view: object
    kernel: Kernel
    cost: float = 1.0
