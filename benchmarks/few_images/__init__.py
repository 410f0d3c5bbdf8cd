"""What classifiers make of a few hundred or thousand images."""
