"""Draw the floors of the package, and the way of the data through them.

Run as ``python docs/figures/floors.py <target>``.
"""

import sys
from pathlib import Path

from drawing import (
    BLUE,
    DARK,
    GREEN,
    GREY,
    NEW,
    OLD,
    ORANGE,
    SUMS,
    TABLE,
    canvas,
    write,
)
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

LEFT, WIDTH, HEIGHT, GAP = 3.1, 10.2, 0.72, 0.16
# From the top: names side by side, what they do, colour.
FLOORS = [
    (["questions", "transforms", "estimators"], "", NEW),
    (["flows", "networks"], "", SUMS),
    (["processes"], "bases, posteriors, the plan", SUMS),
    (["inference", "image_maps"], "", SUMS),
    (["engine"], "cuts matrices into tiles, assembles them", OLD),
    (["backends"], "compute one tile: torch, C++, CUDA", OLD),
    (["kernels", "completion", "solvers", "likelihoods"], "", TABLE),
    (["linalg"], "factors, solves, eigenvalues", OLD),
    (["_protocols", "_config", "exceptions"], "", "#d9d9d9"),
]


def main(target):
    """Write the figure."""
    with canvas(target) as axes:
        for i, (names, what, color) in enumerate(FLOORS):
            y = 8.35 - i * (HEIGHT + GAP)
            width = (WIDTH - GAP * (len(names) - 1)) / len(names)
            for j, name in enumerate(names):
                x = LEFT + j * (width + GAP)
                draw_room(axes, x, y, width, name, what, color)
        draw_ways(axes)


def draw_room(axes, x, y, width, name, what, color):
    """Draw a folder: its name, and what it does."""
    shape = "round,pad=0,rounding_size=0.1"
    colors = {"facecolor": color, "edgecolor": "white"}
    axes.add_patch(FancyBboxPatch((x, y), width, HEIGHT, boxstyle=shape, **colors))
    if what:
        write(axes, x + 0.25, y + HEIGHT / 2, name, size=12, weight="bold")
        write(axes, x + 2.6, y + HEIGHT / 2, what, size=11)
    else:
        middle = {"ha": "center", "weight": "bold"}
        write(axes, x + width / 2, y + HEIGHT / 2, name, size=12, **middle)


def draw_ways(axes):
    """Draw how data go down in `fit`, and come up again."""
    settings = {"arrowstyle": "-|>", "mutation_scale": 16, "linewidth": 2.0}
    right = LEFT + WIDTH
    ends = ((LEFT - 0.5, 8.95, 2.0, BLUE), (right + 0.5, 2.0, 8.95, ORANGE))
    for x, start, end, color in ends:
        arrow = FancyArrowPatch((x, start), (x, end), color=color, **settings)
        axes.add_patch(arrow)
    lines = ["X, y", "doors", "plan", "tiles"]
    for text, y in zip(lines, (8.7, 7.8, 6.95, 4.4), strict=True):
        write(axes, LEFT - 0.7, y, text, size=11, color=BLUE, ha="right")
    lines = ["labels, means", "warnings of facts", "process", "Gram matrix"]
    for text, y in zip(lines, (8.7, 8.25, 6.95, 4.85), strict=True):
        write(axes, right + 0.7, y, text, size=11, color=ORANGE)
    note = "A folder imports from those below it; those side by side never meet."
    write(axes, LEFT, 0.75, note, size=11, color=GREY)
    write(axes, LEFT, 9.4, "skconvgp/", size=13, color=DARK, weight="bold")
    beside = "not part of the path: display, metrics, datasets"
    write(axes, right, 9.4, beside, size=11, color=GREEN, ha="right")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
