"""The embedded broker: a real Apache Kafka (KRaft, one node) in a Java process of its own."""

from __future__ import annotations

import base64
import json
import os
import shlex
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from random import SystemRandom
from uuid import uuid4

import structlog
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from millrace.embedded.fencing import ended_in_order, fence_old_session
from millrace.errors import BrokerUnavailableError, OperationError
from millrace.kafka.broker_java import broker_java
from millrace.kafka.clients import quiet_admin_client
from millrace.kafka.jars import BROKER_JARS, Progress, resolve_jars
from millrace.kafka.java import QUICK_TO_START
from millrace.processes import ProcessIdentity

HOST = "127.0.0.1"

# One node cannot hold the three replicas that the internal topics ask for, and few partitions start faster.
_DEFAULT_PROPERTIES: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "default.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A mistyped topic name is an error that says so, not a new topic.
    "auto.create.topics.enable": "false",
}

_LOG_CONFIGURATION = """\
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = FILE
appender.file.type = RollingFile
appender.file.name = FILE
appender.file.fileName = {directory}/server.log
appender.file.filePattern = {directory}/server.log.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %-5p %c - %m%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
"""

_FENCING_LOG_CONFIGURATION = """\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = CONSOLE
appender.console.type = Console
appender.console.name = CONSOLE
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c - %m%n
"""

_LISTENING_PORTS = range(10_000, 32_768)

JAVA_OPTIONS_VARIABLE = "KAFKA_JVM_PERFORMANCE_OPTS"

_log = structlog.get_logger(__name__)


class EmbeddedBroker:
    """A Kafka node on this machine: broker and controller in one process.

    The directory keeps the data, the ports and the logs (``server.log``, and ``java.log`` for what the virtual
    machine prints), so a broker that was stopped or killed starts again where it was, on the same ports. The process
    leads a session of its own: it outlives the caller unless it is stopped, and a Ctrl-C does not reach it. Its virtual
    machine gets the options of ``KAFKA_JVM_PERFORMANCE_OPTS``, as that of Kafka's own scripts does.

    Args:
        directory: where this broker keeps everything; made if it is not there.
        port: port for clients; default: the one of the last start in this directory, or a free one.
        heap: Java's ``-Xmx``.
        properties: broker settings that override or extend the defaults.
        home: where the jars are; default :func:`millrace.home.millrace_home`.
        cluster_id: of the cluster that it is formatted for; default: one of its own.
        java_options: more options of the virtual machine.
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int | None = None,
        heap: str = "512m",
        properties: Mapping[str, str] | None = None,
        home: Path | None = None,
        cluster_id: str | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        self.directory = directory.absolute()
        self.heap = heap
        self.properties = dict(properties or {})
        self._home = home
        self._cluster_id = cluster_id or new_cluster_id()
        self._java_options = tuple(java_options)
        self._process: subprocess.Popen[bytes] | None = None
        self._identity: ProcessIdentity | None = None
        self._port, self._controller_port = self._ports(port)

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for clients."""
        return f"{HOST}:{self._port}"

    @property
    def controller(self) -> str:
        """``host:port`` for other controllers."""
        return f"{HOST}:{self._controller_port}"

    @property
    def identity(self) -> ProcessIdentity | None:
        """The broker's process; ``None`` before the first start."""
        return self._identity

    @property
    def log_file(self) -> Path:
        """The broker's own log."""
        return self.directory / "server.log"

    def is_running(self) -> bool:
        """Returns whether the process lives. It may not answer yet, see :meth:`wait_until_ready`."""
        return self._identity is not None and self._identity.is_alive()

    def start(self, *, timeout_s: float = 300, progress: Progress | None = None) -> None:
        """Starts the process and waits until it answers.

        The first start in a directory formats the storage. The jars are resolved if they are not there yet, which
        ``timeout_s`` does not cover.

        Args:
            timeout_s: how long the broker may take to answer, seconds.
            progress: gets a line of text for each step; default: the log.

        Raises:
            OperationError: it runs already, its ports are taken, or it ended while it started.
            BrokerUnavailableError: it did not answer in time; it is killed then.
            PreflightError: Java or the jars are missing.
        """
        if self.is_running():
            raise OperationError(f"The broker in {self.directory} runs already.", remedy="stop it first")
        for port in (self._port, self._controller_port):
            _check_port_is_free(port)
        jars = resolve_jars(BROKER_JARS, home=self._home, progress=progress)
        report = progress or _report_to_log
        report(f"starting Kafka on {self.bootstrap_servers}")
        self._write_configuration()
        if not (self.directory / "data" / "meta.properties").exists():
            self._format(jars)
        elif self._is_alone() and not ended_in_order(self.directory / "data"):
            report("the last one was killed: its session is fenced first")
            self._fence_old_session(jars, timeout_s)
        options = (*shlex.split(os.environ.get(JAVA_OPTIONS_VARIABLE, "")), *self._java_options)
        with (self.directory / "java.log").open("ab") as output:
            self._process = subprocess.Popen(
                [*self._java(jars), f"-Xmx{self.heap}", *options, "kafka.Kafka", str(self._configuration_file)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                start_new_session=True,
            )
        self._identity = ProcessIdentity.of(self._process.pid)
        try:
            self.wait_until_ready(timeout_s=timeout_s)
        except BaseException:
            self.kill()
            raise
        report(f"Kafka answers on {self.bootstrap_servers}")

    def wait_until_ready(self, *, timeout_s: float = 300) -> None:
        """Waits until the broker answers a metadata request.

        Raises:
            OperationError: the process ended.
            BrokerUnavailableError: no answer within ``timeout_s`` seconds.
        """
        admin = quiet_admin_client(self.bootstrap_servers)

        def is_waiting() -> bool:
            if not self.is_running():
                raise OperationError(
                    f"The broker in {self.directory} ended while it started: {self._last_words()}",
                    remedy=f"see {self.log_file} and {self.directory / 'java.log'}",
                )
            return not (_accepts_connections(self._port) and admin.answers(timeout_s=1.0))

        try:
            Retrying(retry=retry_if_result(bool), stop=stop_after_delay(timeout_s), wait=wait_fixed(0.1))(is_waiting)
        except RetryError:
            raise BrokerUnavailableError(
                f"The broker on {self.bootstrap_servers} did not answer within {timeout_s:g} s.",
                remedy=f"see {self.log_file}",
            ) from None

    def stop(self, *, timeout_s: float = 30) -> bool:
        """Stops the broker in order (SIGTERM), with SIGKILL after ``timeout_s`` seconds; nothing if it does not run.

        Returns:
            Whether it ended without SIGKILL.
        """
        ended = self._identity.terminate_group(timeout_s=timeout_s) if self._identity is not None else True
        self._reap()
        return ended

    def kill(self) -> None:
        """Ends the broker at once (SIGKILL), as a crash would; its data stays for the next start."""
        if self._identity is not None and self._identity.signal_group(signal.SIGKILL):
            self._identity.wait_until_gone(10)
        self._reap()

    def __enter__(self) -> EmbeddedBroker:
        if not self.is_running():
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait(timeout=10)
            self._process = None

    @property
    def _configuration_file(self) -> Path:
        return self.directory / "server.properties"

    def _ports(self, port: int | None) -> tuple[int, int]:
        file = self.directory / "ports.json"
        try:
            known = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            known = {}
        client = port or known.get("client")
        controller = known.get("controller")
        missing = iter(free_ports(2))
        return client or next(missing), controller or next(missing)

    def _settings(self) -> dict[str, str]:
        return {
            **_DEFAULT_PROPERTIES,
            "controller.quorum.voters": f"1@{self.controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap_servers},CONTROLLER://{self.controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers}",
            "log.dirs": str(self.directory / "data"),
            **self.properties,
        }

    def _write_configuration(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = [f"{key}={value}\n" for key, value in self._settings().items()]
        self._configuration_file.write_text("".join(lines), encoding="utf-8")
        (self.directory / "log4j2.properties").write_text(
            _LOG_CONFIGURATION.format(directory=self.directory), encoding="utf-8"
        )
        (self.directory / "fencing-log4j2.properties").write_text(_FENCING_LOG_CONFIGURATION, encoding="utf-8")
        ports = {"client": self._port, "controller": self._controller_port}
        (self.directory / "ports.json").write_text(json.dumps(ports), encoding="utf-8")

    def _fence_old_session(self, jars: tuple[Path, ...], timeout_s: float) -> None:
        java = self._java(jars, logs="fencing-log4j2.properties")
        fence_old_session(java, self.directory, self._settings(), self.controller, timeout_s=timeout_s)

    def _is_alone(self) -> bool:
        # Where there are other controllers, they fence a node while it is away.
        return "," not in self._settings()["controller.quorum.voters"]

    def _java(self, jars: tuple[Path, ...], *, logs: str = "log4j2.properties") -> list[str]:
        return [
            *broker_java(jars),
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={self.directory / logs}",
            "-XX:+ExitOnOutOfMemoryError",
        ]

    def _format(self, jars: tuple[Path, ...]) -> None:
        command = [
            *self._java(jars), *QUICK_TO_START, "-Xmx128m",
            "kafka.tools.StorageTool", "format",
            "--cluster-id", self._cluster_id,
            "--config", str(self._configuration_file),
        ]  # fmt: skip
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if result.returncode != 0:
            raise OperationError(
                f"Kafka could not format {self.directory / 'data'}: {(result.stderr or result.stdout).strip()[-500:]}",
                remedy="check the disk and the broker's properties",
            )

    def _last_words(self) -> str:
        lines: list[str] = []
        for file in (self.directory / "java.log", self.log_file):
            if file.exists():
                lines += file.read_text(encoding="utf-8", errors="replace").splitlines()
        telling = [line for line in lines[-400:] if "ERROR" in line or "FATAL" in line or "Error" in line]
        return " | ".join((telling or lines)[-3:])[-600:]


def free_ports(count: int) -> Sequence[int]:
    """Returns distinct TCP ports that nothing on this machine listens on now.

    They are for what listens later, or again after a crash: no outgoing connection takes one of them meanwhile, since
    systems give these ports of 32768 and above.

    Raises:
        OperationError: there are not so many.
    """
    candidates = SystemRandom().sample(_LISTENING_PORTS, len(_LISTENING_PORTS))
    found: list[int] = []
    with ExitStack() as bound:
        for port in candidates:
            if len(found) == count:
                break
            probe = bound.enter_context(socket.socket())
            with suppress(OSError):
                probe.bind((HOST, port))
                found.append(port)
    if len(found) < count:
        raise OperationError(
            f"Of the ports {_LISTENING_PORTS[0]} to {_LISTENING_PORTS[-1]} only {len(found)} are free.",
            remedy="end what listens on the others",
        )
    return found


def _check_port_is_free(port: int) -> None:
    with socket.socket() as probe:
        # As the broker itself does: connections of an earlier broker that are still winding down do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise OperationError(
                f"Port {port} is taken: {error.strerror}.", remedy="stop what listens there or choose another port"
            ) from error


def _accepts_connections(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False


def new_cluster_id() -> str:
    """Returns an identifier for a new cluster."""
    # 22 characters of the URL-safe base64 alphabet: 16 bytes, as Kafka's own identifiers.
    # None that starts with a dash: the storage tool would take it for an option.
    while (text := base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")).startswith("-"):
        continue
    return text


def _report_to_log(line: str) -> None:
    _log.info("broker", step=line)
