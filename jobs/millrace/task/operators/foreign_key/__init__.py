"""Joins of tables by a foreign key: subscriptions, their answers, and what comes of both."""
