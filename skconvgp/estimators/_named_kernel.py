"""NamedKernel: settings of a kernel are set where there is a kernel."""

from typing import Any, Self

from sklearn.base import BaseEstimator

__all__ = ["NamedKernel"]


class NamedKernel(BaseEstimator):
    """An estimator whose kernel has settings only where it is named."""

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
        kernel = params.get("kernel", self.kernel)
        nested = sorted(name for name in params if name.startswith("kernel__"))
        if nested and not hasattr(kernel, "set_params"):
            raise ValueError(
                f"{nested[0]!r} is a setting of a kernel, but `kernel` is {kernel!r}. "
                "Name the kernel, for example kernel=convnet(), and set or search that."
            )
        super().set_params(**params)
        return self
