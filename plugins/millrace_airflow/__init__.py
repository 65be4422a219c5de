"""Millrace for Airflow: a hook, operators and triggers over :mod:`millrace.supervise` and
:mod:`millrace.operations`.
"""
