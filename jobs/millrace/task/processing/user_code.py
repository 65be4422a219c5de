"""The life cycle of an object from a supplier: created and closed with the task, created again after a failed batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from millrace.errors import MillraceError, ProcessingError, error_not_of_user_code
from millrace.task.processing.context import Forward, NodeContext
from millrace.task.processor import TaskContext

_log = structlog.get_logger(__name__)


class UserCode:
    """A processor or transformer of the user, with its life cycle.

    Args:
        node: name of its node.
        supplier: makes it.
        task: the task's surroundings.
        forward: takes what it forwards.
    """

    def __init__(self, node: str, supplier: Callable[[], Any], task: TaskContext, forward: Forward) -> None:
        self._node = node
        self._supplier = supplier
        self._task = task
        self._context = NodeContext(node, task, task.processing, forward)
        self._instance: Any = None

    @property
    def instance(self) -> Any:
        """The open processor."""
        assert self._instance is not None
        return self._instance

    def open(self) -> None:
        """Creates and initialises the processor, unless it is open.

        Raises:
            ProcessingError: it cannot be.
            StateError: it met state that cannot be read.
        """
        if self._instance is not None:
            return
        try:
            instance = self._supplier()
            instance.init(self._context)
        except MillraceError:
            raise
        except Exception as error:
            own = error_not_of_user_code(error)
            if own is not None:
                raise own from None
            raise ProcessingError(
                f"Task {self._task.task}: processor {self._node} cannot be initialised: "
                f"{type(error).__name__}: {error}.",
                remedy="fix the supplier or its init()",
            ) from error
        self._instance = instance

    def close(self) -> None:
        """Closes the processor; if that fails, the error is logged only, since nothing depends on it."""
        instance, self._instance = self._instance, None
        if instance is None:
            return
        try:
            instance.close()
        except Exception as error:
            _log.error("processor not closed", task=self._task.task, node=self._node, error=repr(error))
