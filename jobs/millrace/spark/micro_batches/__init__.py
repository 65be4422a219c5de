"""Sub-topologies with frame functions: Spark reads the input, and a query commits once a micro-batch."""
