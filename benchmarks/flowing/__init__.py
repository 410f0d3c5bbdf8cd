"""What `flows.py` measures, one module for each kind of figure."""
