"""The driver and its control plane. Import its modules: status and health stay light for a process that supervises."""
