"""The driver's side of stream threads: one Spark query for the application, a driver query for each sub-topology."""
