"""The measured networks in numbers, for codes that do not share our classes."""

from math import prod

MAIN = "convnet", "mnist"  # the network and images that other codes have published
# Of `convnet()`: variances per location, as in the published configuration.
DEPTH, KERNEL_SIZE = 7, 7
WEIGHT_VARIANCE, BIAS_VARIANCE = 2.79, 7.86
RESIDUAL_DEPTH = 9  # of `residual_convnet()`
# Of `resnet32()`: residual blocks per group; fan-in variances 1, no bias.
GROUPS, BLOCKS = 3, 5

# Per position and ReLU, for as many pairs as a vector has float32 lanes: nine
# operations of the two multiply-add units and one square root.
CYCLES, MULTIPLY_ADDS = 5.5, 9


# Of the kernel for a GPU, for one pair of the main network in float32: a quarter of
# what a warp carries out for four, as NVRTC 13.5 compiles it for compute capability
# 9.0. A warp holds one row of a map, whatever part of its lanes that fills.
LANES, WARP_INSTRUCTIONS = 32, 5200
MAIN_SIDE = 28


def activation_maps(
    network: str, image_shape: tuple[int, ...]
) -> list[tuple[int, int, int]]:
    """Return (how many, height, width) of the maps that one pair of images has."""
    height, width = image_shape[1:]
    if network != "resnet32":
        depth = {"convnet": DEPTH, "residual_convnet": RESIDUAL_DEPTH}[network]
        return [(depth, height, width)]
    maps = [(1, 1, 1)]  # of the head
    for group in range(GROUPS):
        maps.append((1, height, width))  # of the first block, before its stride
        if group > 0:
            height, width = -(-height // 2), -(-width // 2)
        maps.append((2 * BLOCKS - 1, height, width))
    return maps


def n_activations(network: str, image_shape: tuple[int, ...]) -> int:
    """Return how many ReLU expectations one pair of images needs."""
    return sum(prod(sizes) for sizes in activation_maps(network, image_shape))


def n_warp_instructions(network: str, image_shape: tuple[int, ...]) -> float:
    """Return the instructions of a warp for one pair: those of the main, by rows."""
    n_rows = sum(
        count * height * -(-width // LANES)
        for count, height, width in activation_maps(network, image_shape)
    )
    return WARP_INSTRUCTIONS / (DEPTH * MAIN_SIDE) * n_rows
