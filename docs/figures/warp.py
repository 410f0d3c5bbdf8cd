"""Draw a warp of a GPU that holds the map of a pair, and how it sums a window.

Run as ``python docs/figures/warp.py <target>``.
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

LANES, USED, ROWS, RADIUS = 32, 28, 9, 3  # ROWS of the picture; real maps have more
WINDOW = 2 * RADIUS + 1
ROW, LANE, CELL = 6, 11, 0.165  # in work; size of a cell
HEIGHT, SHEET = 0.24, 0.1  # of a row; how far the next pair's map lies behind
LEFT, MAP, RING, PANELS, WIDE = 4.85, 5.0, 1.75, 11.35, 4.75  # where things lie
EMPTY, PALE = "#e6e6e6", "#dbe9f6"
ZONES = [
    (0.2, 3.95, "L2 cache", "what is known of the images"),
    (4.4, 6.3, "Registers of a warp", "the maps of four pairs, 32 lanes wide"),
    (10.95, 5.35, "Arithmetic", "one row of a map, all lanes at once"),
]


def main(target: Path) -> None:
    """Draw and save."""
    with canvas(target) as axes:
        draw_zones(axes, ZONES)
        draw_pairs(axes)
        draw_tables(axes)
        draw_map(axes)
        draw_ring(axes)
        draw_panels(axes)
        draw_window(axes)
        draw_arrows(axes)


def draw_pairs(axes: Axes) -> None:
    """Draw the four pairs of two images with two others."""
    x, y, size = 1.15, 6.75, 0.62
    for i in range(2):
        write(axes, x - 0.3, y + (1.5 - i) * size, f"$x_{i + 1}$", ha="center", size=11)
        name = rf"$x'_{i + 1}$"
        write(axes, x + (i + 0.5) * size, y + 2 * size + 0.22, name, ha="center")
    grid(axes, x, y, size, size, 2, 2, OLD)
    told = "four pairs\na warp: a table\nis read once\nfor two pairs"
    write(axes, x + 2 * size + 0.2, y + size, told, size=9)
    told = "warps at work together take pairs\nof few images: tables stay in cache"
    write(axes, 0.55, y - 0.25, told, size=9, va="top")


def draw_tables(axes: Axes) -> None:
    """Draw the tables of one image as sheets."""
    x, y = 0.55, 3.55
    for sheet in (2, 1, 0):
        shift = 0.16 * sheet
        grid(axes, x + shift, y + shift, 0.095, 0.17, USED, ROWS, TABLE)
    write(axes, x, y - 0.3, "table of an image", weight="bold")
    told = (
        "a sheet for each layer, a number\nfor each position, the deviation\n"
        r"$s = \sqrt{v}$" + "; a row is one load of\nthe warp, and neighbours in\n"
        "memory are neighbouring lanes"
    )
    write(axes, x, y - 0.57, told, va="top")


def draw_map(axes: Axes) -> None:
    """Draw the map: a lane for each column, a register for each row."""
    for sheet in (3, 2, 1):
        shift = SHEET * sheet
        x, y = LEFT + shift, MAP + shift
        size = {"width": LANES * CELL, "height": ROWS * HEIGHT}
        look = {"facecolor": PALE, "edgecolor": "white", "lw": 1.2}
        axes.add_patch(Rectangle((x, y), **size, **look))
    for i in range(ROWS):
        # Rows of the next layer follow half a window behind.
        color = NEW if i < ROW - RADIUS else (PALE if i < ROW else OLD)
        for j in range(LANES):
            told = color if j < USED else EMPTY
            cell(axes, LEFT + j * CELL, row_at(i), CELL, HEIGHT, told)
    frame(axes, LEFT, row_at(ROW), LANES * CELL, HEIGHT)
    frame(axes, LEFT + LANE * CELL, MAP, CELL, ROWS * HEIGHT)
    top = MAP + ROWS * HEIGHT + 3 * SHEET
    lane = LEFT + (LANE + 0.5) * CELL
    way(axes, [(lane, top + 0.27), (lane, MAP + ROWS * HEIGHT + 0.02)], DARK)
    told = "a lane holds one column: a register for each row"
    write(axes, LEFT + 0.1, top + 0.42, told, weight="bold", size=9)
    write(axes, LEFT, MAP - 0.3, "the map of a layer", weight="bold")
    told = (
        "blue: this layer, to be read; pale: read, its\n"
        "sums in the ring; orange: next layer, written\n"
        "over it; grey: lanes without a column, zero;\n"
        "behind: the maps of the other three pairs"
    )
    write(axes, LEFT, MAP - 0.57, told, va="top")


def draw_ring(axes: Axes) -> None:
    """Draw the sums along the rows that are under the window."""
    for i in range(WINDOW):
        color = "#e4e4f0" if i == 2 else SUMS
        for j in range(LANES):
            told = color if j < USED else EMPTY
            cell(axes, LEFT + j * CELL, RING + i * 0.2, CELL, 0.2, told)
    write(
        axes, LEFT, RING - 0.27, "ring of the sums along the last 7 rows", weight="bold"
    )
    told = (
        "registers too; a new row takes the place of the\n"
        "oldest one, and the sum of all goes along"
    )
    write(axes, LEFT, RING - 0.54, told, va="top")


def draw_panels(axes: Axes) -> None:
    """Draw what is done with a row."""
    x = PANELS
    panel(axes, x, 6.55, WIDE, 1.75, "activation")
    told = r"$d = s\,s' - |c|, \quad u = d\,/\,(s\,s')$"
    write(axes, x + 0.2, 7.47, told, size=11.5)
    write(axes, x + 0.2, 6.94, r"$\max(c, 0) + d\,\sqrt{u}\;P(u)$", size=11.5)
    panel(axes, x, 2.35, WIDE, 3.7, "sum along the row")
    write(axes, x + 2.45, 5.72, "3 shuffles, 4 additions", color=GREY)
    panel(axes, x, 0.55, WIDE, 1.3, "sum over the rows")
    write(axes, x + 0.2, 1.17, "subtract the row that leaves the window,")
    write(axes, x + 0.2, 0.85, "add the one that enters it")


def draw_window(axes: Axes) -> None:
    """Draw how a lane gets the sum of seven lanes."""
    left, size, top = PANELS + 2.2, 0.3, 4.92
    lines = [
        ("$x$", 0, 1),
        (r"$s_2 = x + x_{+1}$", 0, 2),
        (r"$s_4 = s_2 + s_{2,+2}$", 0, 4),
        (r"$s_{4,-3}$", -RADIUS, 4),
    ]
    for i, (name, start, width) in enumerate(lines):
        y = top - 0.42 * i
        write(axes, PANELS + 0.2, y + 0.13, name, size=10.5)
        for j in range(-RADIUS, RADIUS + 1):
            is_in = start <= j < start + width
            place = left + (j + RADIUS) * size
            cell(axes, place, y, size, 0.26, OLD if is_in else "#f2f2f2")
        if i == 0:
            middle = left + WINDOW / 2 * size
            write(axes, middle, y + 0.4, "this lane", size=8, ha="center")
    y = top - 0.42 * len(lines) - 0.1
    write(axes, PANELS + 0.2, y + 0.13, r"$s_{4,-3} + s_4 - x$", size=10.5)
    grid(axes, left, y, size, 0.26, WINDOW, 1, SUMS)
    told = "shuffles go around the warp: lanes without\n"
    told += "a column bring the zeros of the padding"
    write(axes, PANELS + 0.2, 2.74, told, size=9, color=GREY)


def draw_arrows(axes: Axes) -> None:
    """Draw the way of a row, in five steps."""
    right = LEFT + LANES * CELL + 0.03
    row = row_at(ROW) + HEIGHT / 2
    enter = PANELS - 0.02
    tables = [(3.35, 4.6), (4.28, 4.6), (4.28, 8.05), (enter, 8.05)]
    way(axes, tables, GREEN, rim=True)
    down = PANELS + 3.9
    way(axes, [(down, 6.52), (down, 6.08)], DARK)
    way(axes, [(down, 2.32), (down, 1.88)], DARK)
    ring = RING + WINDOW * 0.1
    there = [(enter, 0.95), (10.45, 0.95), (10.45, ring), (right, ring)]
    way(axes, there, PURPLE)
    way(axes, there[::-1], PURPLE)
    new = row_at(ROW - RADIUS) + HEIGHT / 2
    way(axes, [(enter, 1.45), (10.8, 1.45), (10.8, new), (right, new)], ORANGE)
    way(axes, [(right, row), (10.45, row), (10.45, 7.3), (enter, 7.3)], BLUE, rim=True)
    mark(axes, 10.45, 6.95, "1", BLUE)
    mark(axes, 4.28, 7.2, "2", GREEN)
    mark(axes, down + 0.35, 6.3, "3", DARK)
    mark(axes, 10.45, 1.75, "4", PURPLE)
    mark(axes, 10.8, 3.6, "5", ORANGE)


def row_at(i: int) -> float:
    """Return where row i of the map begins."""
    return MAP + (ROWS - 1 - i) * HEIGHT


def frame(axes: Axes, x: float, y: float, width: float, height: float) -> None:
    """Mark a row or a lane."""
    axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=DARK, lw=1.5))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
