"""The figures of a report; nothing here imports matplotlib until one is drawn."""

FEWEST = 3
"""Fewest models of a figure: with fewer, a table says more in less space."""
