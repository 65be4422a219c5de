"""Savepoints: the state and the progress of a whole application at one moment, kept, checked and restored."""

from millrace.ops.savepoint_index import KnownSavepoint, read_index
from millrace.ops.savepoints.create import create_savepoint
from millrace.ops.savepoints.history import prune_savepoints, take_due_savepoint
from millrace.ops.savepoints.manage import delete_savepoint, list_savepoints, show_savepoint, verify_savepoint
from millrace.ops.savepoints.manifest import Manifest, SavepointState
from millrace.ops.savepoints.restore import restore_savepoint
from millrace.ops.savepoints.summary import SavepointSummary, summary

__all__ = [
    "KnownSavepoint",
    "Manifest",
    "SavepointState",
    "SavepointSummary",
    "create_savepoint",
    "delete_savepoint",
    "list_savepoints",
    "prune_savepoints",
    "read_index",
    "restore_savepoint",
    "show_savepoint",
    "summary",
    "take_due_savepoint",
    "verify_savepoint",
]
