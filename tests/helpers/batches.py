"""Batches of `partial_fit`."""

import pytest

# For tests that add the same samples again, and look at something else.
twice = pytest.mark.filterwarnings("ignore:.* of this batch have the values of earlier")
