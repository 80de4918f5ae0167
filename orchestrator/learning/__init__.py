"""Learning (paper, section 5): GRPO on states of the game, with the game's own verdict as the reward."""
