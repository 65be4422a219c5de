"""Sensors."""

from millrace_airflow.sensors.stream import LagBelowSensor, StreamReadySensor

__all__ = ["LagBelowSensor", "StreamReadySensor"]
