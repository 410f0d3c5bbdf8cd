"""Inference with Gaussian processes: posterior, evidence, leave-one-out, noise."""

from skconvgp.inference._alike import Alike, most_alike
from skconvgp.inference._amplitude import choose_amplitude
from skconvgp.inference._augmented import (
    Addition,
    Augmented,
    LeftOutInputs,
    NewVersions,
)
from skconvgp.inference._class_sums import ClassMoments, ClassSums, LabelCode
from skconvgp.inference._conformal import (
    Ranks,
    interval_ends,
    label_counts,
    norm_counts,
    variance_counts,
)
from skconvgp.inference._draws import bootstrap_directions, pathwise_coefficients
from skconvgp.inference._equal import (
    FEWEST_INPUTS,
    EqualInputs,
    LeftOutBlocks,
    MergedSamples,
)
from skconvgp.inference._evidence import (
    UNINFORMED,
    LeaveOneOut,
    informative,
    leave_one_out,
    leave_one_unit_out,
    log_marginal_likelihood,
    mean_variance,
    missing_quadratic,
    moment_amplitude,
    profiled_amplitude,
)
from skconvgp.inference._feature_slopes import (
    FeatureScore,
    feature_score,
)
from skconvgp.inference._features import (
    FeaturePosterior,
    FeatureSums,
    feature_evidence,
    feature_inverse_blocks,
    feature_inverse_diag,
    feature_leave_one_out,
    feature_posterior,
    sum_features,
)
from skconvgp.inference._labels import (
    LABEL_COPIES,
    LabelFit,
    LabelState,
    Sites,
    fit_labels,
)
from skconvgp.inference._laplace import (
    LaplaceFit,
    fit_laplace,
    laplace_matrices,
    leave_one_out_laplace,
)
from skconvgp.inference._laplace_slopes import laplace_slopes
from skconvgp.inference._laplace_states import (
    LaplaceState,
    OneLatentState,
    SoftmaxState,
)
from skconvgp.inference._local import (
    LeftOut,
    local_posterior,
    local_spectra,
    without_neighbors,
)
from skconvgp.inference._mixture import (
    LeftOutSamples,
    Mixture,
    WeightedSum,
    choose_mixture,
    mixed,
    restored,
)
from skconvgp.inference._mixture_errors import error_factor
from skconvgp.inference._noise import (
    log_density,
    noise_grid,
    score_noise,
    select_feature_noise,
    select_fitc_noise,
    select_noise,
)
from skconvgp.inference._posterior import (
    CovarianceUpdate,
    join_updates,
    left_out_covariance,
    posterior_mean,
    sample_gaussian,
)
from skconvgp.inference._queries import Pool, least_variance
from skconvgp.inference._stacking import stacking_weights
from skconvgp.inference._trend import FlatTrend
from skconvgp.inference._variational import (
    Coefficients,
    NaturalPosterior,
    gaussian_sites,
)
from skconvgp.inference._versions import Blocks, images_out

__all__ = [
    "FEWEST_INPUTS",
    "LABEL_COPIES",
    "UNINFORMED",
    "Addition",
    "Alike",
    "Augmented",
    "Blocks",
    "ClassMoments",
    "ClassSums",
    "Coefficients",
    "CovarianceUpdate",
    "EqualInputs",
    "FeaturePosterior",
    "FeatureScore",
    "FeatureSums",
    "FlatTrend",
    "LabelCode",
    "LabelFit",
    "LabelState",
    "LaplaceFit",
    "LaplaceState",
    "LeaveOneOut",
    "LeftOut",
    "LeftOutBlocks",
    "LeftOutInputs",
    "LeftOutSamples",
    "MergedSamples",
    "Mixture",
    "NaturalPosterior",
    "NewVersions",
    "OneLatentState",
    "Pool",
    "Ranks",
    "Sites",
    "SoftmaxState",
    "WeightedSum",
    "bootstrap_directions",
    "choose_amplitude",
    "choose_mixture",
    "error_factor",
    "feature_evidence",
    "feature_inverse_blocks",
    "feature_inverse_diag",
    "feature_leave_one_out",
    "feature_posterior",
    "feature_score",
    "fit_labels",
    "fit_laplace",
    "gaussian_sites",
    "images_out",
    "informative",
    "interval_ends",
    "join_updates",
    "label_counts",
    "laplace_matrices",
    "laplace_slopes",
    "least_variance",
    "leave_one_out",
    "leave_one_out_laplace",
    "leave_one_unit_out",
    "left_out_covariance",
    "local_posterior",
    "local_spectra",
    "log_density",
    "log_marginal_likelihood",
    "mean_variance",
    "missing_quadratic",
    "mixed",
    "moment_amplitude",
    "most_alike",
    "noise_grid",
    "norm_counts",
    "pathwise_coefficients",
    "posterior_mean",
    "profiled_amplitude",
    "restored",
    "sample_gaussian",
    "score_noise",
    "select_feature_noise",
    "select_fitc_noise",
    "select_noise",
    "stacking_weights",
    "sum_features",
    "variance_counts",
    "without_neighbors",
]
