"""Aggregations of a key and a window: tumbling, hopping, sliding, of sessions."""
