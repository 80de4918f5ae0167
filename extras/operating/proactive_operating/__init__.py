"""Operating curves and decision maps of proactive-sweep."""
