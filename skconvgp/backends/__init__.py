"""How one tile of a network is computed."""

from skconvgp.backends._reference import ReferenceBackend, TangentBackend

__all__ = ["ReferenceBackend", "TangentBackend"]
