"""Aggregators: groups of rows, columnar kernels, and callables."""
