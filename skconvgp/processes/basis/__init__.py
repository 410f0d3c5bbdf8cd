"""Bases: what new samples are compared with."""
