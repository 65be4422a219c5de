"""The context that a user-written processor receives in ``init``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from millrace.callables import callable_name, deferred_kind
from millrace.errors import ProcessingError
from millrace.serdes import Serde
from millrace.task.processing.runtime import ProcessingRuntime
from millrace.task.processing.stores import open_global_store, open_typed_store
from millrace.task.processor import TaskContext
from millrace.task.serialization import or_default
from millrace.topology.default_serdes import default_serde
from millrace.topology.processor_api import Cancellable, PunctuationType, Punctuator, RecordMetadata
from millrace.topology.windows import Duration, to_milliseconds

Forward = Callable[[Any, str | None], None]


class NodeContext:
    """The context of one node. See :class:`millrace.topology.processor_api.ProcessingContext`.

    Args:
        node: the node's name.
        task: the task's surroundings.
        runtime: what the processors of the task share.
        forward: takes what the processor forwards.
    """

    def __init__(self, node: str, task: TaskContext, runtime: ProcessingRuntime, forward: Forward) -> None:
        self._node = node
        self._task = task
        self._runtime = runtime
        self._forward = forward

    @property
    def application_id(self) -> str:
        """The ``application.id``."""
        return self._task.config.application_id

    @property
    def task_id(self) -> str:
        """The name of the task."""
        return self._task.task

    @property
    def state_dir(self) -> Path | None:
        """The directory of the task's stores."""
        return self._task.state_directory

    @property
    def key_serde(self) -> Serde:
        """The default serde of keys: that of ``default.key.serde``, otherwise bytes."""
        return or_default(default_serde(self._task.config.default_key_serde))

    @property
    def value_serde(self) -> Serde:
        """The default serde of values: that of ``default.value.serde``, otherwise bytes."""
        return or_default(default_serde(self._task.config.default_value_serde))

    def app_configs(self) -> Mapping[str, Any]:
        """Returns the configuration by dotted key."""
        return self._task.config.to_mapping()

    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, Any]:
        """Returns the settings whose keys begin with ``prefix``, without the prefix."""
        return {key.removeprefix(prefix): value for key, value in self.app_configs().items() if key.startswith(prefix)}

    def current_stream_time_ms(self) -> int:
        """Returns the stream time of the task, milliseconds."""
        return self._runtime.stream_time_ms

    def current_system_time_ms(self) -> int:
        """Returns the wall clock, milliseconds."""
        return self._runtime.system_time_ms()

    def record_metadata(self) -> RecordMetadata | None:
        """Returns topic, partition and offset of the input record."""
        return self._runtime.metadata()

    def get_state_store(self, name: str) -> Any:
        """Returns a store that is connected to this node."""
        if name in self._task.global_stores:
            return open_global_store(name, self._task, self._runtime, node=self._node)
        connected = self._task.stores.processors[self._node].stores
        if name not in connected:
            raise ProcessingError(
                f"Processor {self._node} has no access to store {name}; it has {', '.join(connected) or 'none'}.",
                remedy="name the store in process(), process_values() or transform_values(), in add_state_store() or "
                "connect_processor_and_state_stores(), or return it from stores() of the supplier",
            )
        return open_typed_store(name, self._task, self._runtime, node=self._node)

    def schedule(
        self,
        interval: Duration,
        punctuation_type: PunctuationType,
        callback: Punctuator,
        *,
        start_time: datetime | int | None = None,
    ) -> Cancellable:
        """Schedules repeated calls of ``callback``."""
        interval_ms = to_milliseconds(interval)
        if interval_ms < 1:
            raise ProcessingError(f"Node {self._node} schedules a punctuation every {interval_ms} ms; 1 is the least.")
        if not callable(callback):
            raise ProcessingError(f"Node {self._node} schedules {callback!r}, which cannot be called.")
        deferred = deferred_kind(callback)
        if deferred is not None:
            raise ProcessingError(
                f"Node {self._node} schedules {callable_name(callback)}, which is {deferred}, so that a call would not "
                "run its body.",
                remedy="pass a plain function of the timestamp",
            )
        kind = PunctuationType(punctuation_type)
        return self._runtime.schedule(self._node, interval_ms, kind, callback, start_time)

    def commit(self) -> None:
        """Requests a commit, which takes place at the end of the batch in any case."""

    def forward(self, record: Any, child_name: str | None = None) -> None:
        """Passes a record on."""
        self._forward(record, child_name)
