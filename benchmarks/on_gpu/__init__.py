"""The parts of the benchmark on a GPU."""
