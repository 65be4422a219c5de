"""Stream threads: long Spark tasks that read their tasks' input by themselves and commit by interval."""
