"""The measured networks in numbers, for codes that do not share our classes."""

from math import prod

# Of `convnet()`: variances per location, as in the published configuration.
DEPTH, KERNEL_SIZE = 7, 7
WEIGHT_VARIANCE, BIAS_VARIANCE = 2.79, 7.86
# Of `resnet32()`: residual blocks per group; fan-in variances 1, no bias.
GROUPS, BLOCKS = 3, 5

# Per position and ReLU, for as many pairs as a vector has float32 lanes: nine
# operations of the two multiply-add units and one square root.
CYCLES, MULTIPLY_ADDS = 5.5, 9


def n_activations(network: str, image_shape: tuple[int, ...]) -> int:
    """Return how many ReLU expectations one pair of images needs."""
    positions = prod(image_shape[1:])
    if network == "convnet":
        return DEPTH * positions
    total, side = 1, image_shape[1]  # one at the single position of the head
    for group in range(GROUPS):
        total += side**2  # of the first block, before its stride
        side = side if group == 0 else -(-side // 2)
        total += (2 * BLOCKS - 1) * side**2
    return total
