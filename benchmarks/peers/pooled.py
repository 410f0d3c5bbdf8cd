"""Networks that average over positions, for codes that do not share our classes.

All have convolutions of 3 x 3 with ReLU. Steps of a network are

- ("layers", n): n convolutions with ReLU;
- ("pool", k): the means of windows of k x k positions that do not overlap;
- ("average", r, s): the mean of positions up to r steps of s away, at each position;
- ("global", s): the means of positions whose distances are multiples of s;
- ("flatten",): no average.
"""

POOLED_SIZE, POOLED_VARIANCE = 3, 2.0  # of windows, and of weights times the fan-in

Steps = tuple[tuple[str, *tuple[int, ...]], ...]


def myrtle(*depths: int) -> Steps:
    """Return layers at three resolutions, with pools of 2 x 2 between them."""
    one, two, three = (("layers", depth) for depth in depths)
    return (one, ("pool", 2), two, ("pool", 2), three, ("global", 1))


POOLED: dict[str, Steps] = {
    "5 layers, Flatten": (("layers", 5), ("flatten",)),
    "radius 2": (("layers", 5), ("average", 2, 1), ("flatten",)),
    "radius 2, step 2": (("layers", 5), ("average", 2, 2), ("flatten",)),
    "lattice 4": (("layers", 5), ("global", 4)),
    "lattice 2": (("layers", 5), ("global", 2)),
    "all positions": (("layers", 5), ("global", 1)),
    "all positions, 20": (("layers", 20), ("global", 1)),
    "Myrtle-5": myrtle(2, 1, 1),
    "Myrtle-7": myrtle(2, 2, 2),
    "Myrtle-10": myrtle(3, 3, 3),
}


def is_common(name: str) -> bool:
    """Whether neural-tangents has the layers: averages without a step between."""
    return all(
        step[-1] == 1 for step in POOLED[name] if step[0] in ("average", "global")
    )
