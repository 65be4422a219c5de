"""The driver's side of stream threads: one Spark query for the application, and a query's face for each sub-topology."""
