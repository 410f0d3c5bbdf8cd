"""TrainedEstimator: the base of estimators that train networks."""

from typing import Any

from sklearn.utils import Tags

from skconvgp._documented import reference_page
from skconvgp.estimators._callbacks import BaseCallbacks
from skconvgp.estimators._versions import with_version, without_version


class TrainedEstimator(BaseCallbacks):
    """An estimator that trains networks on samples or images, from a random start."""

    _get_doc_link = reference_page

    random_state: Any

    def __sklearn_tags__(self) -> Tags:
        """Declare that X may hold images, and that `fit` draws random numbers."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.non_deterministic = self.random_state is None
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Add the version of the package."""
        return with_version(super().__getstate__())

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Warn if another version of the package wrote the state."""
        super().__setstate__(without_version(type(self).__name__, state))
