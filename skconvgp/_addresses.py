"""Where the project is found; ``.ci/addresses.py`` writes it into all other files."""

__all__ = ["DOCS_URL", "PROJECT_URL"]

PROJECT_URL = ""  # of the repository, without a slash at its end; empty: unpublished
DOCS_URL = ""  # of the documentation, likewise
