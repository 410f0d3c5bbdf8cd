"""Where estimators are documented: their pictures in notebooks link there."""

from skconvgp._addresses import DOCS_URL

__all__ = ["reference_page"]

NESTED = "skconvgp.transforms"  # a public module of estimators besides the package


def reference_page(estimator: object) -> str:
    """Return the address of the page of a class; empty without one, as in subclasses.

    It is the method `_get_doc_link` of estimators, which scikit-learn calls.
    """
    own = type(estimator)
    if not DOCS_URL or not own.__module__.startswith("skconvgp."):
        return ""
    module = NESTED if own.__module__.startswith(f"{NESTED}.") else "skconvgp"
    return f"{DOCS_URL}/api/generated/{module}.{own.__name__}.html"
