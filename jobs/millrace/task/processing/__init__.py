"""The environment of user-written processors: their context, their stores, their punctuations."""
