"""The driver's side of stream threads: one Spark query for the application, a face for each sub-topology."""
