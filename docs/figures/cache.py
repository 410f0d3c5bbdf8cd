"""Draw where the numbers of a pair live while the fused backend computes it.

Run as ``python docs/figures/cache.py <target>``.
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
    PURPLE,
    SUMS,
    TABLE,
    VECTOR,
    canvas,
    cell,
    draw_zones,
    grid,
    mark,
    panel,
    way,
    write,
)
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

LANES, ROWS, COLUMNS = 16, 8, 12  # of the picture; real maps are larger
ROW, COLUMN, CELL = 4, 7, 0.3  # in work; size of a cell
LEFT, RING, PANELS, BUS = 5.9, 2.0, 11.0, 3.9  # where things lie
ZONES = [  # the slowest on the left
    (0.2, 4.7, "L2 cache", "what is known of the images"),
    (5.2, 5.0, "L1 cache", "the maps of 16 pairs"),
    (10.5, 5.8, "Registers", "one position of 16 pairs"),
]


def main(target: Path) -> None:
    """Draw and save."""
    with canvas(target) as axes:
        draw_zones(axes, ZONES)
        draw_tables(axes)
        draw_map(axes)
        draw_ring(axes)
        draw_registers(axes)
        draw_arrows(axes)


def draw_tables(axes: Axes) -> None:
    """Draw the tables of sixteen images as sheets, and the column of one image."""
    x, y, width, height = 0.65, 5.8, 0.16, 0.22
    for sheet in (2, 1, 0):
        shift = 0.16 * sheet
        grid(axes, x + shift, y + shift, width, height, LANES, 9, TABLE)
    write(axes, x, y - 0.3, r"tables of 16 images $\mathbf{x}'$", weight="bold")
    told = (
        "a sheet for each layer, a row for each\nposition, a column for each image:\n"
        r"$s = \sqrt{v}$ and $r = 1/s$, 128 bytes a step"
    )
    write(axes, x, y - 0.57, told, va="top")
    x, y = 0.65, 0.85
    grid(axes, x, y, 0.3, 0.22, 1, 9, TABLE)
    write(axes, x + 0.65, y + 1.75, "table of one image x", weight="bold")
    told = (
        "the same two numbers, one for\nall 16 lanes; the next x meets\n"
        "the same 16 images"
    )
    write(axes, x + 0.65, y + 1.48, told, va="top")


def draw_map(axes: Axes) -> None:
    """Draw the map: rows of the next layer follow those of the last one."""
    for i in range(ROWS):
        # With windows of 3 rows a row is complete when the next one has come in.
        done = COLUMNS if i < ROW - 1 else (COLUMN if i == ROW - 1 else 0)
        for j in range(COLUMNS):
            cell(axes, LEFT + j * CELL, row_at(i), CELL, CELL, NEW if j < done else OLD)
    frame(axes, row_at(ROW))
    cell(axes, LEFT + COLUMN * CELL, row_at(ROW), CELL, CELL, BLUE)
    cell(axes, LEFT + (COLUMN - 1) * CELL, row_at(ROW - 1), CELL, CELL, ORANGE)
    y = row_at(ROWS - 1)
    write(axes, LEFT, y - 0.3, "the map of a layer", weight="bold")
    told = (
        "a cell holds one position of 16 pairs;\nblue: this layer, still to be read\n"
        "orange: next layer, written over it"
    )
    write(axes, LEFT, y - 0.57, told, va="top")


def draw_ring(axes: Axes) -> None:
    """Draw the rows of sums under the window."""
    for i in range(3):
        for j in range(COLUMNS):
            is_old = i == 1 and j >= COLUMN
            color = "#e4e4f0" if is_old else SUMS
            cell(axes, LEFT + j * CELL, RING + i * CELL, CELL, CELL, color)
    frame(axes, RING + CELL)
    write(axes, LEFT, RING - 0.3, "ring of filtered rows", weight="bold")
    told = "sums along the last rows; the\nnewest takes the oldest one's place"
    write(axes, LEFT, RING - 0.57, told, va="top")


def draw_registers(axes: Axes) -> None:
    """Draw what is done with one vector."""
    x, size = PANELS, 0.3
    write(
        axes,
        x,
        8.02,
        r"c of x with $\mathbf{x}'_1, \ldots, \mathbf{x}'_{16}$",
        weight="bold",
    )
    grid(axes, x, 7.5, size, size, LANES, 1, VECTOR)
    panel(axes, x, 5.15, 4.8, 1.75, "activation")
    write(axes, x + 0.2, 6.1, r"$d = s\,s' - |c|, \quad u = d\,r\,r'$", size=11.5)
    write(axes, x + 0.2, 5.57, r"$\max(c, 0) + d\,\sqrt{u}\;P(u)$", size=11.5)
    panel(axes, x, 2.75, 4.8, 1.75, "sum along the row")
    write(axes, x + 0.2, 3.72, "add the value that enters the window,")
    write(axes, x + 0.2, 3.4, "subtract the value that leaves it")
    grid(axes, x + 0.2, 2.92, size, 0.25, 3, 1, VECTOR)
    write(axes, x + 1.3, 3.04, "values under the window", color=GREY)
    panel(axes, x, 0.65, 4.8, 1.45, "sum over the rows")
    write(axes, x + 0.2, 1.33, "take the result one row up, add the new")
    write(axes, x + 0.2, 1.01, "sum, subtract the one that it replaces")


def draw_arrows(axes: Axes) -> None:
    """Draw the way of a number, in five steps."""
    here, above = (row_at(i) + CELL / 2 for i in (ROW, ROW - 1))
    right, ring = LEFT + COLUMNS * CELL + 0.03, RING + 1.5 * CELL
    way(axes, [(0.8, 2.88), (0.8, BUS), (4.0, BUS)], GREEN, head=False)
    table = [(3.58, 6.9), (5.05, 6.9), (5.05, BUS), (10.75, BUS), (10.75, 6.0)]
    way(axes, [*table, (PANELS, 6.0)], GREEN)
    way(axes, [(0.8, BUS), (5.05, BUS)], GREEN, head=False)
    down = PANELS + 2.4
    for start, end in ((7.47, 6.93), (5.12, 4.53), (2.72, 2.13)):
        way(axes, [(down, start), (down, end)], DARK)
    first = [(LEFT + (COLUMN + 0.5) * CELL, here), (10.35, here), (10.35, 7.65)]
    way(axes, [*first, (PANELS, 7.65)], BLUE)
    way(axes, [(PANELS, 3.4), (10.35, 3.4), (10.35, ring), (right, ring)], PURPLE)
    last = [(PANELS, 1.17), (9.85, 1.17), (9.85, above)]
    way(axes, [*last, (LEFT + (COLUMN + 0.05) * CELL, above)], ORANGE, rim=True)
    mark(axes, 10.35, 7.3, "1", BLUE)
    mark(axes, 10.75, 5.4, "2", GREEN)
    mark(axes, down + 0.35, 4.83, "3", DARK)
    mark(axes, 10.35, 3.0, "4", PURPLE)
    mark(axes, 10.35, 1.17, "5", ORANGE)


def row_at(i: int) -> float:
    """Return where row i of the map begins."""
    return 5.8 + (ROWS - 1 - i) * CELL


def frame(axes, y):
    """Mark a row in work."""
    size = {"width": COLUMNS * CELL, "height": CELL}
    axes.add_patch(Rectangle((LEFT, y), **size, fill=False, edgecolor=DARK, lw=1.6))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
