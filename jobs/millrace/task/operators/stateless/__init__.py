"""Operators that look at one record and keep nothing."""
