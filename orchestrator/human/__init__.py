"""A person plays: the game of a sweep, with an engine whose replies are chosen on a local page."""
