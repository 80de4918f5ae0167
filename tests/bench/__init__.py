"""Measurements: ratios printed side by side, never asserted."""
