"""The driver's coordinator of stream threads: who has which task, and what threads are asked to do."""
