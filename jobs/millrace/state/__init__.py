"""State stores of a task: RocksDB and memory, their layers, the task's database, its changelogs and restorations."""

from millrace.state.buffer_layout import BufferedChange, BufferedRecordContext
from millrace.state.changelog import ChangelogBatch
from millrace.state.directory import DirectoryLock, StateDirectory, lock_holder
from millrace.state.join_window import JoinEntries, JoinWindowStore
from millrace.state.position import TaskPosition
from millrace.state.replay import RestoreProgress
from millrace.state.restore import restore
from millrace.state.rocksdb import DatabaseOptions
from millrace.state.stores import KeyValueStore, Session, SessionStore, StoreMetrics, WindowStore
from millrace.state.suppression_buffer import SuppressionBuffer
from millrace.state.task_state import StateOptions, TaskState
from millrace.state.versioned import VersionedKeyValueStore, VersionedSnapshot
from millrace.state.versions import VersionedRecord
from millrace.topology.state_stores import NOT_PUT, VALID_TO_UNDEFINED

__all__ = [
    "NOT_PUT",
    "VALID_TO_UNDEFINED",
    "BufferedChange",
    "BufferedRecordContext",
    "ChangelogBatch",
    "DatabaseOptions",
    "DirectoryLock",
    "JoinEntries",
    "JoinWindowStore",
    "KeyValueStore",
    "RestoreProgress",
    "Session",
    "SessionStore",
    "StateDirectory",
    "StateOptions",
    "StoreMetrics",
    "SuppressionBuffer",
    "TaskPosition",
    "TaskState",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "VersionedSnapshot",
    "WindowStore",
    "lock_holder",
    "restore",
]
