"""The methods that the page of an estimator shows, and those that it names only."""

import skconvgp

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
    """Return the methods of each public estimator by its name."""
    public = {name: getattr(skconvgp, name) for name in skconvgp.__all__}
    return {
        name: methods_of(item)
        for name, item in public.items()
        if isinstance(item, type) and hasattr(item, "fit")
    }
