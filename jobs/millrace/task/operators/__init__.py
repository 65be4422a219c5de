"""The behaviour of each operator of a topology, one module an idea."""

from __future__ import annotations

from millrace.task.operators.factory import create_joint_processor, create_processor

__all__ = ["create_joint_processor", "create_processor"]
