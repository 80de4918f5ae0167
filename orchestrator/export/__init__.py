"""Export of run folders to the formats of other tools."""
