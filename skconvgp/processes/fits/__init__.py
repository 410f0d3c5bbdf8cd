"""Fits: from a problem and a basis to a process."""
