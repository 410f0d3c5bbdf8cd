"""The picture of the demo."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike, NDArray

from skconvgp.display import ReliabilityDisplay, UncertainDigitsDisplay
from skconvgp.display._pictures import draw_picture, set_title
from skconvgp.display._pyplot import figure_for

__all__ = ["N_SHOWN", "Sheet"]

N_SHOWN = 8  # images of each kind
N_BINS = 15  # of probabilities, as the calibration error has them
WIDTHS = 3.6, 9.4  # of reliability and of images, in inches
HEIGHT, ROW = 4.0, 2.0  # of both, and of likely wrong labels


class Sheet:
    """A figure: how reliable a classifier is, and what it is sure of and is not.

    It needs matplotlib, which is asked for when it is made, before any work.
    """

    def __init__(self) -> None:
        self.figure = figure_for(self, sum(WIDTHS), HEIGHT)

    def require_format(self, output: Path) -> None:
        """Raise unless the name of a file ends as a kind of picture."""
        kinds = sorted(self.figure.canvas.get_supported_filetypes())
        if output.suffix.lower().removeprefix(".") not in kinds:
            raise ValueError(
                f"--output {str(output)!r} must end in the name of a kind of picture: "
                f"{', '.join(kinds)}."
            )

    def draw(
        self,
        images: NDArray[Any],
        y_prob: NDArray[Any],
        y: ArrayLike,
        labels: ArrayLike,
        wrong: Sequence[dict[str, Any]] = (),
    ) -> None:
        """Draw reliability, images of least and highest probability, and wrong labels.

        These are records of an audit of the same images.
        """
        if wrong:
            self.figure.set_size_inches(sum(WIDTHS), HEIGHT + ROW)
        left, right = self.figure.subfigures(1, 2, width_ratios=WIDTHS)
        if wrong:
            right, below = right.subfigures(2, 1, height_ratios=(HEIGHT, ROW))
            _draw_wrong(below, images, wrong)
        ReliabilityDisplay.from_predictions(
            y, y_prob, labels=labels, n_bins=N_BINS, name="Reliability", figure=left
        )
        UncertainDigitsDisplay.from_predictions(
            images, y_prob, y, labels=labels, n_images=N_SHOWN, figure=right
        )

    def save(self, output: Path) -> None:
        """Write the picture into a file."""
        self.figure.savefig(output, dpi=150)


def _draw_wrong(
    figure: Any, images: NDArray[Any], wrong: Sequence[dict[str, Any]]
) -> None:
    """Draw a row of images with their labels and proposals."""
    title = f"Likely wrong labels: {len(wrong)}"
    figure.suptitle(title, fontsize="medium", fontweight="bold")
    every = figure.subplots(1, N_SHOWN)
    for axes in every:
        axes.set_axis_off()
    for axes, one in zip(every, wrong, strict=False):
        draw_picture(axes, images[one["index"]])
        words = [f"{one['label']} →", str(one["proposal"])]
        set_title(axes, [words], figure.bbox.width / N_SHOWN)
