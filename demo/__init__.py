"""``make demo``: the whole platform at work, on this machine."""
