"""KernelEstimator: estimators with a kernel, as scikit-learn objects."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from skconvgp._documented import reference_page
from skconvgp.estimators._callbacks import BaseCallbacks
from skconvgp.estimators._versions import with_version, without_version
from skconvgp.estimators.settings._checks import is_precomputed
from skconvgp.kernels import Kernel, convnet


def require_nested(
    kernel: object, params: Mapping[str, object], example: Kernel
) -> None:
    """Raise for settings of a kernel that an estimator has not been given.

    Parameters
    ----------
    kernel : object
        The kernel of the estimator.
    params : mapping
        What is set.
    example : Kernel
        What might be given.
    """
    kernel = params.get("kernel", kernel)
    nested = sorted(name for name in params if name.startswith("kernel__"))
    if nested and not hasattr(kernel, "set_params"):
        raise ValueError(
            f"{nested[0]!r} is a setting of a kernel, but `kernel` is {kernel!r}. "
            f"Name the kernel, for example kernel={example!r}, and set or search that."
        )


class KernelEstimator(BaseCallbacks, BaseEstimator):
    """An estimator with a kernel, which takes images too."""

    _get_doc_link = reference_page

    # Makes the kernel that None stands for.
    _default_kernel: ClassVar[Callable[[], Kernel]] = convnet

    kernel: object

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``kernel__depth`` is the depth of the kernel.

        Parameters
        ----------
        **params : object
            Names and new values.

        Returns
        -------
        self : estimator
            The same object.
        """
        if "kernel" in self._get_param_names():
            require_nested(self.kernel, params, type(self)._default_kernel())
        super().set_params(**params)
        return self

    def __sklearn_tags__(self) -> Tags:
        """Declare that X may hold images, and whether it is a Gram matrix."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Add the version of the package."""
        return with_version(super().__getstate__())

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Warn if another version of the package wrote the state."""
        super().__setstate__(without_version(type(self).__name__, state))
