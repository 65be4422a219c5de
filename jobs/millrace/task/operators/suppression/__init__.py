"""Suppression: updates that are held back until their window closes, or until a limit of time or space."""
