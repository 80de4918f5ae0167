"""Play by a person: an engine whose replies are chosen on a local page."""
