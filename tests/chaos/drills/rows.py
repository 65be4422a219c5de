"""The rows of the failure matrix: what goes wrong, how a drill makes it happen, and what Millrace does about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One kind of failure.

    Args:
        key: its name in the results.
        failure: what goes wrong.
        drill: how it is made to happen.
        done: what Millrace does by itself.
    """

    key: str
    failure: str
    drill: str
    done: str


ROWS = (
    Row(
        "worker",
        "A worker dies",
        "`kill -9` of a Python worker in the middle of a batch, with a transaction open",
        "Spark starts another stream thread; its tasks end the open transactions and go on at the committed offsets",
    ),
    Row(
        "executor",
        "An executor dies",
        "on a Spark cluster `kill -9` of an executor, one of whose workers hangs inside a transaction and keeps its "
        "task's lock",
        "Spark replaces it and tries its tasks again; the worker left behind is ended by whoever needs the task",
    ),
    Row(
        "driver",
        "The driver dies",
        "`kill -9` of the driver's process, which is then started again as supervision does",
        "its virtual machine and workers end; the next driver fences their transactions and goes on at the committed "
        "offsets",
    ),
    Row(
        "disk",
        "The host's disk is lost",
        "every process of the application is killed and `state.dir` removed, as on a new host",
        "all stores are restored from their changelogs to exactly the committed offsets",
    ),
    Row(
        "broker-restart",
        "The broker restarts",
        "`kill -9` of the only broker, and a start on its data",
        "batches fail and are tried again; queries that die are started again until a broker answers",
    ),
    Row(
        "broker-unreachable",
        "The broker is unreachable for longer than the transaction timeout",
        "`SIGSTOP` of the broker for twice `transaction.timeout.ms`, then `SIGCONT`",
        "the broker aborts what was open; the batch is processed again in a new transaction",
    ),
    Row(
        "changelog",
        "A changelog topic is deleted",
        "deletion of a changelog by an administrator while the application runs",
        "the application stops before it commits anything more; every later start is refused, and the topic is not "
        "created again empty",
    ),
    Row(
        "store",
        "A store is corrupted",
        "one byte in 512 of every table of every store is inverted, then the stores are opened again",
        "RocksDB's checksums show it at the first read; the stores are emptied and restored within the same batch",
    ),
    Row(
        "checkpoint",
        "Spark's checkpoint directory is deleted",
        "removal of the checkpoint directories of all queries while they run",
        "nothing stops: stream threads read and commit by themselves, and nothing of the application is in it",
    ),
    Row(
        "offsets",
        "The group's offsets are moved by hand",
        "an administrator sets the offsets of the group to 0 while the application is paused",
        "the next heartbeat finds offsets without the application's signature and stops it; starts are refused",
    ),
    Row(
        "partitions",
        "The input gets more partitions",
        "one partition more for the input topic of a stateful application that runs",
        "the application stops before it processes the new partition, whose keys would meet other stores",
    ),
    Row(
        "move",
        "Every task moves at once",
        "`kill -9` of all workers at the same moment, twice",
        "other workers take all tasks over; nothing is skipped and nothing comes early",
    ),
    Row(
        "two-drivers",
        "Two drivers",
        "a second driver of the same application is started with another `state.dir`",
        "the newer one fences the older one, restores the stores and goes on; the older one ends with exit code 3",
    ),
)
"""All of them, in the order of the page."""

BY_KEY = {row.key: row for row in ROWS}
