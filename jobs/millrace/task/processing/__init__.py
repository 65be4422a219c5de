"""What user-written processors run in: their context, their stores, their punctuations."""
