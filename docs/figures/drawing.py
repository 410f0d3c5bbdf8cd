"""Boxes, grids, arrows and texts of the drawings, in one set of colours."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

OLD, NEW, TABLE, SUMS, VECTOR = "#9ecae1", "#fdae6b", "#a1d99b", "#bcbddc", "#6baed6"
BLUE, ORANGE, GREEN, PURPLE = "#2171b5", "#d94801", "#238b45", "#6a51a3"
DARK, GREY = "#333333", "#666666"


@contextmanager
def canvas(target: Path) -> Iterator[Axes]:
    """Give axes of 16.5 by 9.75 units and save them."""
    mpl.rcParams.update({"svg.hashsalt": "skconvgp", "font.family": "DejaVu Sans"})
    figure = plt.figure(figsize=(11.0, 6.5))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 16.5), ylim=(0, 9.75), aspect="equal")
    axes.set_axis_off()
    yield axes
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)


def draw_zones(axes, zones):
    """Draw places: x, width, name, and what is there."""
    for x, width, name, what in zones:
        box = FancyBboxPatch(
            (x, 0.25),
            width,
            9.2,
            boxstyle="round,pad=0,rounding_size=0.2",
            facecolor="#f7f7f7",
            edgecolor="#cccccc",
        )
        axes.add_patch(box)
        write(axes, x + 0.25, 9.05, name, size=13, weight="bold")
        write(axes, x + 0.25, 8.62, what, size=9.5, color=GREY)


def way(axes, points, color, *, head=True, rim=False):
    """Draw a line through points, with an arrow head; a rim where it crosses."""
    path = mpl.path.Path(points)
    for width, line in ((5.0, "#f7f7f7"), (1.8, color))[not rim :]:
        patch = FancyArrowPatch(
            path=path,
            arrowstyle="-|>" if head and line == color else "-",
            mutation_scale=15,
            color=line,
            linewidth=width,
            joinstyle="round",
            zorder=5,
        )
        axes.add_patch(patch)


def mark(axes, x, y, number, color):
    """Draw the number of a step."""
    rim = {"boxstyle": "circle,pad=0.28", "facecolor": color, "edgecolor": "white"}
    settings = {"color": "white", "weight": "bold", "zorder": 6, "bbox": rim}
    axes.text(x, y, number, ha="center", va="center", fontsize=10, **settings)


def grid(axes, x, y, width, height, n_columns, n_rows, color):
    """Draw cells of one colour."""
    for i in range(n_rows):
        for j in range(n_columns):
            cell(axes, x + j * width, y + i * height, width, height, color)


def cell(axes, x, y, width, height, color):
    """Draw one cell."""
    axes.add_patch(
        Rectangle((x, y), width, height, facecolor=color, edgecolor="white", lw=0.7)
    )


def panel(axes, x, y, width, height, title):
    """Draw a box with a title."""
    shape = "round,pad=0,rounding_size=0.12"
    colors = {"facecolor": "white", "edgecolor": "#bbbbbb"}
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=shape, **colors))
    write(axes, x + 0.2, y + height - 0.33, title, weight="bold")


def write(axes, x, y, text, *, size=9.5, color=DARK, **settings):
    """Write a text."""
    settings = {"va": "center"} | settings
    axes.text(x, y, text, fontsize=size, color=color, **settings)
