"""The tiny model; its checkpoint is in this folder."""
