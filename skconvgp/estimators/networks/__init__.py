"""Estimators by finite networks, and encoders of binary codes."""
