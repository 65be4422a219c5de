"""Updates that are held until their window has closed, or until time or room is up."""
