"""Posteriors: what follows from the data."""
