"""Questions about speed, accuracy and calibration, each with a file of results."""
