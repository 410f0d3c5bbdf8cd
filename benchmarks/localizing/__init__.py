"""Processes of nearest neighbours: their settings, tables and Doppler's curve."""
