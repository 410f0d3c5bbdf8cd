"""How many examples a test draws that takes long for each."""

from hypothesis import settings

SHARE = 0.2


def examples(n):
    """Draw n examples with the profile "all", and a share of them in the gate."""
    is_all = settings.get_current_profile_name() == "all"
    return settings(max_examples=n if is_all else int(SHARE * n))
