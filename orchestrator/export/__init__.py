"""A run folder in the formats of others."""
