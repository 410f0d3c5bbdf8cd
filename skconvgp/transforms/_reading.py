"""ReadImages."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skconvgp._ambient import public
from skconvgp._documented import reference_page
from skconvgp._typing import ImageShape
from skconvgp.estimators._columns import image_columns
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators.settings._checks import Given
from skconvgp.transforms._base import as_wanted
from skconvgp.transforms._files import PictureReader, sources_in

__all__ = ["ReadImages"]


class ReadImages(TransformerMixin, BaseEstimator):
    """Reads pictures of any size, in files or in memory, as images of one size.

    As the first step of a pipeline it lets the pipeline take paths of files, and reads
    each file in the same way in `fit` and later. Pictures of Pillow, as data sets of
    other packages hold them, and arrays of pixels are read in the same way. It needs
    Pillow: ``pip install pillow``.

    Parameters
    ----------
    size : int or (height, width), default=32
        Pixels of each image; an int is the side of a square.
    resize : {"pad", "crop", "stretch"}, default="pad"
        How a picture of another shape becomes such an image. "pad" keeps all of it and
        its proportions, centred, with `padding` beside it. "crop" keeps its proportions
        and the largest part in the middle that has the shape. "stretch" changes its
        proportions.
    mode : {"auto", "L", "RGB"}, default="auto"
        Whether images are grey ("L") or have the channels red, green and blue ("RGB").
        "auto" is grey if all pictures in `fit` hold grey levels, and decides there for
        all later ones.
    background : float, default=1.0
        Grey level from 0 to 1 behind pixels that are not opaque. White is the page on
        which such pictures are mostly seen.
    padding : float, default=0.0
        Grey level from 0 to 1 beside a picture that is padded. Black is what a
        convolution sees beside an image.

    Attributes
    ----------
    mode_ : {"L", "RGB"}
        What `mode` stands for.
    output_shape_ : tuple of int
        Shape (c, h, w) of the images.
    reader_ : object
        Fitted settings, which read a list of paths, pictures and arrays.

    Raises
    ------
    ImportError
        If Pillow is not installed.
    ValueError
        If files are missing, damaged or no pictures: it names all of them. If arrays
        have another shape or type than those of the notes.

    See Also
    --------
    skconvgp.datasets.load_image_folder : Reads all files of a folder in this way.

    Notes
    -----
    Levels are from 0 to 1 in single precision. Bytes are divided by 255 and integers of
    more bits by 65535, without a bound, and floats are taken as they are. Pillow reads
    colours of 16 bits as bytes.

    Arrays of pixels have the shape (h, w) and hold truth values, bytes, integers of 16
    bits or floats, or the shape (h, w, 3) or (h, w, 4), with opacity as the last
    channel, and hold bytes.

    Photographs that a camera has turned (EXIF) are turned upright, and of files with
    several pictures, such as animations, the first is read. Palettes and CMYK become
    red, green and blue, and colours become grey by the luma of ITU-R 601. Colour
    profiles are not read. Pictures are made smaller or larger by the same filter: a
    triangle (Pillow's ``BILINEAR``), as wide as the larger of the pixels, so that it
    averages over pixels that vanish, and that adds no level beyond those that there
    are. A large JPEG is decoded at a half, a quarter or an eighth of its size where
    that leaves at least four times the longer side of `size` to its shorter side; its
    pixels then differ, by some hundredths, from those of the same picture in memory.

    EPS files are refused: another program would have to run them. One file is read at a
    time. Pillow's limit on the number of pixels of a file,
    ``PIL.Image.MAX_IMAGE_PIXELS``, holds.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from skconvgp.transforms import ReadImages
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = [Path(folder) / f"{name}.png" for name in ("red", "blue")]
    ...     for path in paths:
    ...         Image.new("RGB", (40, 30), path.stem).save(path)
    ...     images = ReadImages(size=8).fit_transform(paths)
    >>> images.shape
    (2, 3, 8, 8)
    >>> scans = [np.zeros((30, 40, 3), np.uint8), np.zeros((20, 8, 3), np.uint8)]
    >>> ReadImages(size=8).fit_transform(scans).shape
    (2, 3, 8, 8)
    >>> images[0, :, :, 4]  # red, with one black row above and one below
    array([[0., 1., 1., 1., 1., 1., 1., 0.],
           [0., 0., 0., 0., 0., 0., 0., 0.],
           [0., 0., 0., 0., 0., 0., 0., 0.]], dtype=float32)
    """

    _get_doc_link = reference_page

    reader_: PictureReader

    def __init__(
        self,
        size: object = 32,
        *,
        resize: str = "pad",
        mode: str = "auto",
        background: float = 1.0,
        padding: float = 0.0,
    ) -> None:
        self.size = size
        self.resize = resize
        self.mode = mode
        self.background = background
        self.padding = padding

    def __sklearn_tags__(self) -> Tags:
        """Declare that X holds texts."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        return tags

    @public_fit
    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002  (scikit-learn's)
        """Find out whether pictures hold grey levels or colours, and that they open.

        Parameters
        ----------
        X : array-like of shape (n,)
            Paths of files, str or Path, pictures of Pillow, or arrays of pixels.
        y : None
            Not read.

        Returns
        -------
        self : ReadImages
            The fitted transformer.
        """
        self.reader_ = PictureReader.of(Given.of(self), sources_in(X))
        return self

    @public
    def transform(self, X: Any) -> Any:
        """Read pictures.

        Parameters
        ----------
        X : array-like of shape (n,)
            Paths of files, str or Path, pictures of Pillow, or arrays of pixels.

        Returns
        -------
        X_new : ndarray of shape (n, c, h, w), or (n, c * h * w)
            Images in single precision. They are rows if `set_output` asks for a data
            frame.

        Raises
        ------
        ValueError
            If files cannot be read: it names all of them.
        """
        check_is_fitted(self)
        return as_wanted(self, self.reader_.read(sources_in(X)))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Return the names of the columns of a data frame.

        Names tell the shape of images, as ``readimages_3x32x32_0``, so that the next
        step reads them without `image_shape`.

        Parameters
        ----------
        input_features : None
            Not read.

        Returns
        -------
        feature_names_out : ndarray of str
            The names.
        """
        check_is_fitted(self)
        name = type(self).__name__.lower()
        return np.array(image_columns(name, self.output_shape_), dtype=object)

    @property
    def mode_(self) -> str:
        """What `mode` stands for."""
        return self.reader_.mode

    @property
    def output_shape_(self) -> ImageShape:
        """Shape (c, h, w) of the images."""
        return self.reader_.image_shape

    @property
    def _n_features_out(self) -> int:
        return math.prod(self.output_shape_)
