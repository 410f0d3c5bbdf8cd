"""How far probabilities and intervals can be believed."""
