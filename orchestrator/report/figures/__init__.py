"""Figures; nothing here imports matplotlib, which ``draw`` loads on demand."""

FEWEST = 3
"""Fewest models of a figure: with fewer, a table says more in less space."""
