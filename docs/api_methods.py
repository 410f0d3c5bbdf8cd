"""The methods that the page of an estimator shows, and those that it names only."""

import skconvgp
import skconvgp.transforms

__all__ = ["methods_of", "methods_of_estimators"]


def methods_of(estimator: type) -> dict[str, list[str]]:
    """Return the public methods of a class: the package's own, and inherited others.

    The others come from scikit-learn, whose pages describe them.
    """
    own, others = [], []
    for name in dir(estimator):
        if name.startswith("_") or not callable(getattr(estimator, name)):
            continue
        owners = [base for base in estimator.__mro__ if name in vars(base)]
        is_own = owners[0].__module__.startswith("skconvgp.")
        if is_own and not name.endswith("_request"):
            own.append(name)
        else:
            others.append(name)
    # In the order in which they are used.
    own.sort(key=lambda name: (name != "fit", name != "partial_fit"))
    return {"own": own, "others": others}


def methods_of_estimators() -> dict[str, dict[str, list[str]]]:
    """Return the methods of each public estimator and transformer by its name."""
    return {
        name: methods_of(item)
        for module in (skconvgp, skconvgp.transforms)
        for name in module.__all__
        if isinstance(item := getattr(module, name), type) and hasattr(item, "fit")
    }
