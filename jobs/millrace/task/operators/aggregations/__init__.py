"""Aggregations by key: of a stream, of a table, of several streams together."""
