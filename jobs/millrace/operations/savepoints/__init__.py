"""Savepoints: the state and the progress of a whole application at one moment, kept, checked and restored."""

from millrace.operations.savepoint_index import KnownSavepoint, read_index
from millrace.operations.savepoints.create import create_savepoint
from millrace.operations.savepoints.history import prune_savepoints, take_due_savepoint
from millrace.operations.savepoints.manage import delete_savepoint, list_savepoints, show_savepoint, verify_savepoint
from millrace.operations.savepoints.manifest import Manifest, SavepointState
from millrace.operations.savepoints.restore import restore_savepoint
from millrace.operations.savepoints.summary import SavepointSummary, summary

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
