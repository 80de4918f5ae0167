"""Learning to ask: GRPO on states of the game, by TRL."""
