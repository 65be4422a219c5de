"""The driver's coordinator of stream threads: the assignment of tasks, and the commands to threads."""
