"""The game for other programs: a Gymnasium environment and a verifiers taskset (docs/environments.md).

Both play the transitions of ``run``.
"""
