"""Finite networks as draws: their scores on tables of numbers and on images."""
