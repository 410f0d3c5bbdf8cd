"""Operations of a network on covariance maps, as a graph."""

from dataclasses import dataclass, field

from skconvgp._typing import ImageShape, MapShape, Scalar
from skconvgp.kernels._windows import Axis

__all__ = ["Graph", "Map", "Node"]


@dataclass(eq=False)
class Node:
    """An operation on maps.

    Parameters
    ----------
    kind : str
        "input" or, for whole samples, "dot"; "leaky", "erf", "affine", "add", "conv",
        "sum", "pool", "average"; "join", which adds the covariance to the rest of a
        tangent kernel.
    inputs : tuple of Node
        Nodes whose maps it reads. "add" returns `factor` times the first map plus the
        second.
    shape : (h, w)
        Size of its map.
    additive, factor : float or Tensor
        Constants of the operation, a summand and a factor.
    slope : float
        Slope of a piecewise linear activation.
    is_positive : bool
        Whether the map that an activation reads has no negative covariance.
    axes : tuple of Axis
        Windows along rows and columns; of an average, those within which
        pairs of positions are summed.
    steps : (int, int)
        Displacement of the map along rows and columns, for each position by which the
        averaged map is displaced; 0 if positions are not averaged.
    """

    kind: str
    inputs: tuple["Node", ...]
    shape: MapShape
    additive: Scalar = 0.0
    factor: Scalar = 1.0
    slope: float = 0.0
    is_positive: bool = False
    axes: tuple[Axis, ...] = ()
    steps: MapShape = (0, 0)


@dataclass(frozen=True)
class Map:
    """A covariance map: the map of a node times `beta`.

    Parameters
    ----------
    node : Node
        The node.
    beta : float or Tensor
        Factor that turns the node's values into covariances.
    growth : float
        Bound on the node's values, for images of unit variance.
    is_positive : bool
        Whether no covariance is negative.
    is_rest : bool, default=False
        Whether the second map of a tangent kernel is what it is more than the
        covariance. That is so behind an affine layer, whose input the second map is
        summed as the first one.
    """

    node: Node
    beta: Scalar
    growth: float
    is_positive: bool
    is_rest: bool = False


@dataclass
class Graph:
    """Operations in an order in which they can be computed.

    Parameters
    ----------
    image_shape : (c, h, w)
        Shape of the images.
    nodes : list of Node
        The operations; the first is the input.
    scale : float or Tensor
        Factor of the result.
    is_ntk : bool, default=False
        Whether there is a second map, of the tangent kernel.
    is_rest : bool, default=False
        Whether that of the result has to be added to the covariance.
    """

    image_shape: ImageShape
    nodes: list[Node] = field(default_factory=list)
    scale: Scalar = 1.0
    is_ntk: bool = False
    is_rest: bool = False

    def add(self, node: Node) -> Node:
        """Append a node and return it."""
        self.nodes.append(node)
        return node
