"""Brokers on this machine: what the demo, the tests and ``millrace broker`` start."""
