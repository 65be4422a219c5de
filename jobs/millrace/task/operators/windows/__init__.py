"""Aggregations by key and window: tumbling, hopping, sliding, and sessions."""
