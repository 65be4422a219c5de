"""One application under a steady load, to which the drills are done one after the other."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as ClientTopicPartition

from millrace.embedded.broker import EmbeddedBroker
from millrace.install.application import Application as InstalledApplication
from millrace.install.home import Home
from millrace.install.spec import load_spec
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets, end_offsets
from millrace.kafka.topics import TopicSpec
from millrace.operations.reset import ResetOptions, reset
from millrace.operations.take_over import take_over
from millrace.task.crash_points import DIRECTORY_VARIABLE, CrashPoint
from millrace.topology.topic_partition import TopicPartition
from tests.application import START_LIMIT_S, Application, wait_until
from tests.chaos.drills.observing import Observer
from tests.chaos.drills.results import Result, record
from tests.chaos.load import SteadyLoad
from tests.damage import flip_bytes
from tests.waiting import stop_process_for

OUTPUTS = ("copy", "running", "folds", "buckets")
PARTITIONS = 2
TRANSACTION_TIMEOUT_S = 5.0
RECOVERY_LIMIT_S = 300.0

_STARTS = 3

_FIRST_PORT_OF_A_PLACE = re.compile(r"127\.0\.0\.1:\d+")
_TOPIC_ID = re.compile(r"(?<=was )[\w-]{22}|(?<=is )[\w-]{22}")


class Drilled:
    """The application, its broker and its load.

    Args:
        broker: may be killed and stopped.
        prefix: of all names.
        directory: where everything goes.
        points: directory of crash points, which marks the processes of the test.
    """

    def __init__(self, broker: EmbeddedBroker, prefix: str, directory: Path, points: Path) -> None:
        self.broker = broker
        self.prefix = prefix
        self.admin = KafkaAdmin(broker.bootstrap_servers)
        self.admin.create_missing(
            [TopicSpec(name=f"{prefix}-{name}", partitions=PARTITIONS) for name in ("in", *OUTPUTS)]
        )
        self.home = Home.at(directory / "home", specs=directory / "home" / "specs")
        self._directory = directory
        self._points = points
        self._made: list[Application] = []
        self.application = self._application("first")
        self.load = SteadyLoad(broker.bootstrap_servers, f"{prefix}-in", rate=100)
        self.topic_partitions: list[TopicPartition] = []
        self._is_loaded = False

    def start(self) -> None:
        """Starts the application and the load, and waits until both are at work."""
        self.start_application()
        self.topic_partitions = self.application.inputs()
        self.load.__enter__()
        self._is_loaded = True
        wait_until(lambda: self.load.sent > 300, timeout_s=30, what="the load")
        self.wait_until_committed()

    def start_application(self) -> None:
        """Starts the application and waits until it runs; a start that finds a broker too busy is tried again, as
        supervision would.
        """
        self.application.start()
        for _ in range(_STARTS - 1):
            if self._runs():
                return
            self.application.start()
        self.application.wait_until_running()

    def close(self) -> None:
        """Ends what runs."""
        if self._is_loaded:
            self.load.__exit__(None, None, None)
        for each in self._made:
            each.kill()

    def second(self) -> Application:
        """The same application with another state directory, as on another host; not started."""
        return self._application("second")

    def goes_on(self, key: str, fail: Callable[[], None], *, also: Callable[[], bool] = lambda: True) -> Result:
        """Has something fail and waits until the application has gone on by itself.

        Args:
            key: the row of the matrix.
            fail: makes it happen.
            also: what else must have been seen.
        """
        with Observer(self.application) as observer:
            begin = time.monotonic()
            fail()
            self.wait_until_committed()
            wait_until(also, timeout_s=60, what=f"what {key} has to show")
            self.application.wait_until_running()
            seconds = time.monotonic() - begin
        result = Result(
            key=key, seconds=seconds, by_itself=True, states=tuple(observer.states), metrics=observer.metrics()
        )
        self.keep(result)
        return result

    def stops(self, key: str, fail: Callable[[], None]) -> Result:
        """Has something fail and waits until the application has stopped; the result is not kept yet."""
        with Observer(self.application) as observer:
            begin = time.monotonic()
            fail()
            code = self.application.wait_for_exit()
            seconds = time.monotonic() - begin
        assert code == 1, self.application.errors()
        status = wait_until(self.application.published_status, timeout_s=10, what="its last status")
        assert status.state == "ERROR"
        states = (*observer.states, "ERROR") if observer.states[-1:] != ["ERROR"] else tuple(observer.states)
        return Result(
            key=key,
            seconds=seconds,
            by_itself=False,
            states=states,
            metrics={'millrace_stream_application_state{state="ERROR"}': 1},
            reason=self.general(status.reason),
            remedy=self.general(status.remedy),
        )

    def refused(self) -> str:
        """Starts the application, which must refuse; gives its reason."""
        assert self.application.start().wait_for_exit() == 1
        status = self.application.published_status()
        assert status is not None
        assert status.state == "ERROR"
        return status.reason

    def keep(self, result: Result) -> None:
        """Records a result."""
        record(result)

    def general(self, text: str) -> str:
        """A message without what is particular to the run."""
        for particular, general in (
            (str(self._directory), "<state.dir>"),
            (f"{self.prefix}-app", "my-app"),
            (f"{self.prefix}-", ""),
        ):
            text = text.replace(particular, general)
        return _TOPIC_ID.sub("<topic id>", _FIRST_PORT_OF_A_PLACE.sub("broker:9092", text))

    def committed(self) -> dict[TopicPartition, int]:
        """Committed offsets, whatever transaction is open."""
        found = committed_offsets(self.admin, self.application.application_id, self.topic_partitions, stable=False)
        return {topic_partition: commit.offset for topic_partition, commit in found.items()}

    def wait_until_committed(self) -> None:
        """Returns once everything that is in the input now is committed."""
        ends = wait_until(
            lambda: end_offsets(self.admin, self.topic_partitions), timeout_s=120, what="the ends of the input"
        )

        starts = 0

        def is_committed() -> bool:
            nonlocal starts
            if not self.application.is_alive() and starts < _STARTS:
                self.application.start()  # as supervision would
                starts += 1
            committed = self.committed()
            return all(committed.get(topic_partition, -1) >= end for topic_partition, end in ends.items())

        try:
            wait_until(is_committed, timeout_s=RECOVERY_LIMIT_S, is_claim=True, what="everything committed")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.application.log[-6000:]}") from None

    def kill_worker(self) -> None:
        """Ends a worker in the middle of a batch, with a transaction open."""
        armed = self._points / CrashPoint.INSIDE_TRANSACTION
        written = armed.with_suffix(".new")
        written.write_text(signal.SIGKILL.name)
        written.rename(armed)
        wait_until(lambda: not armed.exists(), timeout_s=60, what="a worker in the middle of a batch")

    def kill_driver(self) -> None:
        """Ends the driver's own process, then starts it again as supervision does."""
        os.kill(self.application.pid, signal.SIGKILL)
        wait_until(lambda: not self.application.is_alive(), timeout_s=10, what="end of the driver")
        self.application.start()

    def kill_workers(self) -> None:
        """Ends all workers that have tasks open, at the same moment."""
        workers = wait_until(
            lambda: [pid for pid in self.application.workers() if psutil.pid_exists(pid)],
            timeout_s=RECOVERY_LIMIT_S,
            is_claim=True,
            what="workers with tasks",
        )
        for pid in workers:
            os.kill(pid, signal.SIGKILL)

    def hide_broker(self) -> None:
        """Stops the broker's process for twice the transaction timeout; nothing on the network tells of it."""
        identity = self.broker.identity
        assert identity is not None
        stop_process_for(identity.pid, 2 * TRANSACTION_TIMEOUT_S)

    def restart_broker(self) -> None:
        """Kills the broker and starts it on its data."""
        self.broker.kill()
        self.broker.start()

    def remove_checkpoints(self) -> None:
        """Removes the checkpoint directories of all queries."""
        found = [
            path
            for root in ("/dev/shm", os.environ.get("TMPDIR", "/tmp"))
            for path in Path(root).glob(f"millrace-checkpoint-{self.application.application_id}*")
        ]
        assert found
        for path in found:
            shutil.rmtree(path)

    def corrupt_stores(self) -> None:
        """Damages every table of every store, then has the stores opened again."""
        directories = self._task_directories()
        assert sum(flip_bytes(directory) for directory in directories)
        self.kill_workers()

    def lose_disk(self) -> None:
        """Kills everything and removes the state."""
        self.application.kill()
        shutil.rmtree(self.application.state_directory)

    def move_offsets(self) -> None:
        """Sets all offsets of the group to 0, with the tools of an administrator."""
        topic_partitions = [ClientTopicPartition(topic, partition, 0) for topic, partition in self.topic_partitions]
        request = ConsumerGroupTopicPartitions(self.application.application_id, topic_partitions)
        (future,) = self.admin.client.alter_consumer_group_offsets([request]).values()
        future.result(30)

    def put_offsets_back(self) -> None:
        """The offsets of the status topic, and our signature over them."""
        status = self.application.published_status()
        assert status is not None
        topic_partitions = [
            ClientTopicPartition(topic, partition, offset)
            for topic, offsets in status.offsets.items()
            for partition, offset in offsets.items()
        ]
        request = ConsumerGroupTopicPartitions(self.application.application_id, topic_partitions)
        (future,) = self.admin.client.alter_consumer_group_offsets([request]).values()
        future.result(30)
        spec = load_spec(self._specification())
        outcome = take_over(InstalledApplication(self.home, spec.name), spec, reason="a drill")
        assert outcome.action == "take over"

    def reset(self) -> None:
        """Resets the application, output topics included."""
        self._specification()
        outputs = frozenset(f"{self.prefix}-{name}" for name in OUTPUTS)
        reset(
            InstalledApplication(self.home, self.application.application_id),
            options=ResetOptions(output_topics=outputs),
        )

    def _runs(self) -> bool:
        def settled() -> bool:
            status = self.application.status()
            return not self.application.is_alive() or (status is not None and status.state == "RUNNING")

        wait_until(settled, timeout_s=START_LIMIT_S, what="RUNNING or ended")
        return self.application.is_alive()

    def _specification(self) -> Path:
        path = self.home.spec_path(self.application.application_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.application.write_specification(), path)
        return path

    def _task_directories(self) -> list[Path]:
        root = self.application.state_directory / self.application.application_id
        return [path for path in root.iterdir() if path.is_dir() and path.name[0].isdigit()]

    def _application(self, name: str) -> Application:
        directory = self._directory / name
        directory.mkdir(exist_ok=True)
        made = Application(
            self.broker.bootstrap_servers,
            f"{self.prefix}-app",
            "tests.chaos.topologies:build",
            directory,
            prefix=self.prefix,
            config={"transaction.timeout.ms": round(1000 * TRANSACTION_TIMEOUT_S)},
            environment={DIRECTORY_VARIABLE: str(self._points)},
        )
        self._made.append(made)
        return made
