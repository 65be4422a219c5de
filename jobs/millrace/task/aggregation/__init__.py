"""The computation of aggregates: groups of rows, columnar kernels, and callables."""
