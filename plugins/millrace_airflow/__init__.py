"""Millrace for Airflow: a hook, operators and triggers over :mod:`millrace.ops`."""
