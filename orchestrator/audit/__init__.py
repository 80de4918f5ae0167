"""Comparison of every stored reply and verdict with the package ``proactivebench``."""
