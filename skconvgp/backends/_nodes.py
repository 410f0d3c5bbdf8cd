"""Operations of a network on covariance maps, as a graph."""

from dataclasses import dataclass, field

from skconvgp._typing import ImageShape, MapShape, Scalar
from skconvgp.kernels._windows import Axis

__all__ = ["Graph", "Map", "Node"]


@dataclass(eq=False)
class Node:
    """An operation on maps."""

    # "input" or, for whole samples, "dot"; "leaky", "erf", "affine", "add", "conv",
    # "sum", "pool", "average"; "join", which adds the covariance to the rest of a
    # tangent kernel.
    kind: str
    # Nodes whose maps it reads. "add" returns `factor` times the first map plus the
    # second.
    inputs: tuple["Node", ...]
    shape: MapShape  # of its map
    additive: Scalar = 0.0  # summand of the operation
    factor: Scalar = 1.0  # factor of the operation
    slope: float = 0.0  # of a piecewise linear activation
    # Whether the map that an activation reads has no negative covariance.
    is_positive: bool = False
    # Windows along rows and columns; of an average, those within which pairs of
    # positions are summed.
    axes: tuple[Axis, ...] = ()
    # Displacement of the map along rows and columns, for each position by which the
    # averaged map is displaced; 0 if positions are not averaged.
    steps: MapShape = (0, 0)


@dataclass(frozen=True)
class Map:
    """A covariance map: the map of a node times `beta`."""

    node: Node
    beta: Scalar  # turns the node's values into covariances
    growth: float  # bound on the node's values, for images of unit variance
    is_positive: bool  # whether no covariance is negative
    # Whether the second map of a tangent kernel lacks the covariance. That is so behind
    # an affine layer, which sums the second map of its input like the first one.
    is_rest: bool = False


@dataclass
class Graph:
    """Operations in an order in which they can be computed, the input first."""

    image_shape: ImageShape
    nodes: list[Node] = field(default_factory=list)
    scale: Scalar = 1.0  # factor of the result
    is_ntk: bool = False  # whether there is a second map, of the tangent kernel
    is_rest: bool = False  # whether the second map of the result lacks the covariance

    def add(self, node: Node) -> Node:
        """Append a node and return it."""
        self.nodes.append(node)
        return node
