"""The share of answers that change when a part of a run is replayed at other batch sizes and worker counts."""
