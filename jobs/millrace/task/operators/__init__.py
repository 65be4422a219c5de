"""The processors of the operators of a topology, one module per kind of operator."""

from __future__ import annotations

from millrace.task.operators.factory import create_joint_processor, create_processor

__all__ = ["create_joint_processor", "create_processor"]
