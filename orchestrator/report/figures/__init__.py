"""Figures; nothing here imports matplotlib, which ``draw`` loads on demand."""
