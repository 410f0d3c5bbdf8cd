"""Expectations of two activations at any variance, by panels of rules."""

import math
from collections.abc import Callable

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)
WIDEST = 9.0  # standard deviations


def rule(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights of panels between edges."""
    half = np.diff(edges)[..., None] / 2.0
    nodes = edges[..., :-1, None] + half * (NODES + 1.0)
    return nodes.reshape(*edges.shape[:-1], -1), (half * WEIGHTS).reshape(
        *edges.shape[:-1], -1
    )


def panels(deviation: float, middle: np.ndarray) -> np.ndarray:
    """Return edges around means, and around 0 where a function of scale 1 changes."""
    grown = np.geomspace(0.5, max(40.0, WIDEST * deviation), 20)
    fixed = np.concatenate([-grown[::-1], [0.0], grown])
    around = deviation * np.linspace(-WIDEST, WIDEST, 17)
    low, high = middle - WIDEST * deviation, middle + WIDEST * deviation
    edges = np.concatenate(
        [middle[:, None] + around, np.broadcast_to(fixed, (len(middle), len(fixed)))],
        axis=1,
    )
    return np.sort(np.clip(edges, low[:, None], high[:, None]), axis=1)


def normal(x: np.ndarray, deviation: float) -> np.ndarray:
    """Return the density of a normal variable."""
    return np.exp(-((x / deviation) ** 2) / 2.0) / (deviation * math.sqrt(2 * math.pi))


def integral(f: Function, t: float, a: float, b: float) -> float:
    """Return E[f(u) f(v)] of variances a and b and correlation t."""
    u, weights = (part[0] for part in rule(panels(math.sqrt(a), np.zeros(1))))
    weights = weights * f(u) * normal(u, math.sqrt(a))
    if abs(t) == 1.0:
        return float(weights @ f(t * math.sqrt(b) * (u / math.sqrt(a))))
    mean = t * math.sqrt(b / a) * u
    deviation = math.sqrt(b * (1.0 - t) * (1.0 + t))
    v, inner = rule(panels(deviation, mean))
    inner = inner * f(v) * normal(v - mean[:, None], deviation)
    return float(weights @ inner.sum(1))
