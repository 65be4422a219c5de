"""Joins of tables by a foreign key: subscriptions, the responses to them, and the join results."""
