"""Stream threads: long Spark tasks that read, process and commit by themselves, and their connection to the driver."""
