"""An installation: its files, the specifications and records of its applications, and their launchers."""
