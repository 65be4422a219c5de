"""What runs where ``spark-submit`` has brought a driver."""
