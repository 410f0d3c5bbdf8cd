"""Covariances of networks with pools that another program has computed."""

from skconvgp.kernels import (
    AvgPool2d,
    Conv2d,
    Dense,
    Flatten,
    GlobalAvgPool2d,
    ReLU,
    Sequential,
)

__all__ = ["PUBLISHED", "TANGENTS"]

STEP = Conv2d(3, weight_variance=2.0), ReLU()
BIASED = Conv2d(3, weight_variance=2.0, bias_variance=0.1), ReLU()
READOUT, HEAVY = Dense(1.5, bias_variance=0.2), Dense(2.0, bias_variance=0.1)
# Network, covariances of the first of three `waves` with all, height and width. The
# values are those of neural-tangents 0.6.5, but for the lattice.
PUBLISHED = {
    "two pools": (
        Sequential(
            *(*STEP, *STEP, AvgPool2d(2), *STEP, AvgPool2d(2), *STEP),
            *(GlobalAvgPool2d(), Dense(2.0)),
        ),
        (0.0985326175019, 0.0966666442701, 0.0937925918454),
        8,
    ),
    "all positions": (
        Sequential(*BIASED * 3, GlobalAvgPool2d(), HEAVY),
        (0.7099801241570, 0.7002455598371, 0.6832248632315),
        8,
    ),
    "windows of 3, steps of 2": (
        Sequential(*BIASED, AvgPool2d(3, stride=2), *BIASED, Flatten(), READOUT),
        (0.7117552959394, 0.6577257741092, 0.5546890998509),
        9,
    ),
    "odd sizes": (
        Sequential(*BIASED, AvgPool2d(2), *BIASED, GlobalAvgPool2d(), READOUT),
        (0.5256832523836, 0.4864411210627, 0.4531474662775),
        7,
    ),
    "lattice": (
        Sequential(*BIASED * 3, GlobalAvgPool2d(2), HEAVY),
        (0.7195719673570, 0.7087061481134, 0.6895080285403),
        8,
    ),
    "windows of 4": (
        Sequential(*BIASED * 2, AvgPool2d(4), Flatten(), READOUT),
        (0.7272954290313, 0.6916825260992, 0.6103350891695),
        8,
    ),
}
TANGENTS = {  # tangent kernels of the same networks
    "two pools": (0.2532663168942, 0.2233929772226, 0.1927889844424),
    "all positions": (1.4033522051989, 1.3550678879129, 1.2819668159927),
    "windows of 3, steps of 2": (1.5841395028049, 1.2839543133404, 0.8765261192620),
    "odd sizes": (0.8531363400121, 0.7259980642980, 0.5997225748416),
    "lattice": (1.4638575621729, 1.3958137067446, 1.3072863990495),
    "windows of 4": (1.3765540682315, 1.2408110394880, 0.9553769913028),
}
