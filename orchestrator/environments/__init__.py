"""The game for programs of others: a Gymnasium environment and a verifiers taskset (docs/environments.md).

Both play what `run` plays, transition by transition. The room imports the game and its prompts alone; it can be deleted.
"""
