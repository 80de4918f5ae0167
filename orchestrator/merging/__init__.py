"""Merging of run folders, and reuse of their episodes."""
