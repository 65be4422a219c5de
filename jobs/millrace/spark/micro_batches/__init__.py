"""The micro-batch engine, for sub-topologies with frame functions: Spark reads the input, each batch is a commit."""
