"""Settings of estimators and functions, and their checks."""
