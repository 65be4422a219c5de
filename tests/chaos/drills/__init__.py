"""Drills: one for each row of the failure matrix, and the page that is made of what they saw."""
