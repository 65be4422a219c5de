"""The commands that run where ``spark-submit`` has brought a driver."""
