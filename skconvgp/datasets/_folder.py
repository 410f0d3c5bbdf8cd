"""Pictures in a folder of the user."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from skconvgp.estimators.settings._checks import Given
from skconvgp.transforms._files import PictureReader

__all__ = ["entries", "load_image_folder", "require_classes"]

# What programs leave in folders, beside names that begin with a dot.
LEFT_BY_PROGRAMS = ("__macosx", "@eadir", "desktop.ini", "ehthumbs.db", "thumbs.db")


def load_image_folder(
    path: str | os.PathLike[str],
    *,
    size: object = 32,
    resize: str = "pad",
    mode: str = "auto",
    background: float = 1.0,
    padding: float = 0.0,
    return_X_y: bool = False,  # noqa: N803
) -> Any:
    """Load the files of pictures in a folder; each of its folders is a class.

    All files are read, in the order of the names of classes and files. What is hidden
    is left out: names that begin with a dot, and what programs leave, such as
    ``Thumbs.db``. It needs Pillow: ``pip install pillow``.

    Parameters
    ----------
    path : path
        The folder. Its folders hold the pictures of a class each, or it holds pictures
        without labels.
    size, resize, mode, background, padding : object
        As in :class:`~skconvgp.transforms.ReadImages`, which reads files to the same
        images.
    return_X_y : bool, default=False
        Whether to return ``(X, y)`` instead of a bunch.

    Returns
    -------
    data : Bunch
        ``data``, float32 images of shape (n, 1, h, w) or (n, 3, h, w) in [0, 1], but
        for files of floats, which are taken as they are; ``target``, integer labels of
        shape (n,), the positions of classes in ``target_names``, which are the sorted
        names of the folders; ``filenames``, an array of paths; ``mode``, "L" for grey
        images or "RGB"; ``DESCR``, a description. Without folders of classes ``target``
        and ``target_names`` are None.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ImportError
        If Pillow is not installed.
    ValueError
        If files are damaged or no pictures, all of which are named; if folders are
        empty, hold folders, or stand beside files.

    See Also
    --------
    skconvgp.transforms.ReadImages : Reads files in a pipeline, which takes their paths.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from skconvgp.datasets import load_image_folder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("red", "blue"):
    ...         (Path(folder) / name).mkdir()
    ...         picture = Image.new("RGB", (40, 30), name)
    ...         picture.save(Path(folder) / name / "plain.png")
    ...     colours = load_image_folder(folder, size=16, resize="crop")
    >>> colours.data.shape, colours.target, colours.target_names
    ((2, 3, 16, 16), array([0, 1]), array(['blue', 'red'], dtype='<U4'))
    """
    given = Given.to(
        "load_image_folder",
        size=size,
        resize=resize,
        mode=mode,
        background=background,
        padding=padding,
    )
    files, folders = entries(Path(path))
    target = names = None
    if folders:
        require_classes(Path(path), files, folders)
        of_classes = [entries(folder)[0] for folder in folders]
        _require_files(Path(path), folders, of_classes)
        files = [file for of_class in of_classes for file in of_class]
        target = np.repeat(np.arange(len(folders)), list(map(len, of_classes)))
        names = np.array([folder.name for folder in folders])
    elif not files:
        raise ValueError(f"The folder {str(path)!r} is empty: name one with pictures.")
    paths = [str(file) for file in files]
    reader = PictureReader.of(given, paths)
    images = reader.read(paths)
    if return_X_y:
        return images, target
    told = f"{len(paths)} pictures of {str(path)!r}, as images of {images.shape[1:]!r}."
    return Bunch(
        data=images,
        target=target,
        target_names=names,
        filenames=np.array(paths),
        mode=reader.mode,
        DESCR=told,
    )


def entries(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the files and the folders in a folder, by name and without hidden ones."""
    found = sorted(folder.iterdir(), key=lambda one: one.name)
    shown = [
        one
        for one in found
        if one.name[0] != "." and one.name.lower() not in LEFT_BY_PROGRAMS
    ]
    folders = [one for one in shown if one.is_dir()]
    return [one for one in shown if one not in folders], folders


def require_classes(path: Path, files: list[Path], folders: list[Path]) -> None:
    """Raise if there are files beside folders, or folders in these."""
    if files:
        raise ValueError(
            f"The folder {str(path)!r} holds folders, whose names are classes, and "
            f"beside them {_listed(files)}: move these to the folder of a class, or "
            "elsewhere."
        )
    nested = [one for one in folders if entries(one)[1]]
    if nested:
        hold = "holds folders itself" if len(nested) == 1 else "hold folders themselves"
        raise ValueError(
            f"In {str(path)!r} each folder is a class, and {_listed(nested)} {hold}: "
            "load one at a time if they are parts of the data, such as train and test, "
            "or else move files up."
        )


def _require_files(
    path: Path, folders: list[Path], of_classes: list[list[Path]]
) -> None:
    """Raise if folders of classes are empty."""
    empty = [one for one, files in zip(folders, of_classes, strict=True) if not files]
    if empty:
        hold, them = ("holds", "it") if len(empty) == 1 else ("hold", "them")
        raise ValueError(
            f"In {str(path)!r} each folder is a class, and {_listed(empty)} {hold} no "
            f"files: remove {them}, or add pictures."
        )


def _listed(paths: Iterable[Path]) -> str:
    return ", ".join(repr(one.name) for one in paths)
