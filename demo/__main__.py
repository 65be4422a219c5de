"""``python -m demo``: starts the platform, streams payments, prints alerts, stops everything, and checks the alerts."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType

from confluent_kafka import Message

from apps.fraud_detection import ALERTS, PAYMENTS
from apps.fraud_model import Alert, LoggedPayment
from apps.payments import PaymentStream
from demo.class_recording import recording_classes
from demo.cluster import ClusterPlatform
from demo.comparison import compare
from demo.platform import APPLICATION, Interrupted, Platform, prepare
from demo.topics import TopicReader, alert_of, committed_offsets, end_offsets, payment_of
from millrace import launch
from millrace.cli.console import messages, out, progress, show_error
from millrace.errors import MillraceError
from millrace.home import millrace_home
from millrace.install.application import Application
from millrace.logs import LogFormat, configure_logs

DEAD_LETTERS = "payments-dead-letters"
_CATCH_UP_LIMIT_S = 300.0
_REPORT_EVERY_S = 5.0


@dataclass
class Readings:
    """What was read so far."""

    alerts: list[Alert] = field(default_factory=list)
    dead_letters: int = 0
    payments: list[LoggedPayment] = field(default_factory=list)

    def alert(self, message: Message) -> None:
        """Takes an alert and prints it."""
        alert = alert_of(message)
        self.alerts.append(alert)
        window = time.strftime("%H:%M", time.gmtime(alert.window_start / 1000))
        out.print(
            f"ALERT {alert.account} spent {alert.total_cents / 100:,.2f} EUR "
            f"in {alert.payments} payments since {window} UTC",
            style="yellow",
            markup=False,
        )

    def dead_letter(self, message: Message) -> None:
        """Counts a dead-letter record."""
        del message
        self.dead_letters += 1

    def payment(self, message: Message) -> None:
        """Takes a payment."""
        self.payments.append(payment_of(message))


def run(platform: Platform, *, seconds: float | None, rate: float) -> bool:
    """One demo, from the first process to the comparison; whether the alerts were right.

    Raises:
        Interrupted: it was ended before payments flowed.
        MillraceError: something did not start.
    """
    with _step(f"starting {platform.services} and Airflow") as tell:
        platform.start(tell)
    assert platform.airflow is not None
    out.print(
        f"Airflow        {platform.airflow.address}  user admin, password {platform.airflow.password}\n"
        f"Kafka          {platform.bootstrap_servers}"
    )
    readings = Readings()
    readers = [
        TopicReader(platform.bootstrap_servers, ALERTS, readings.alert),
        TopicReader(platform.bootstrap_servers, DEAD_LETTERS, readings.dead_letter),
    ]
    stream = PaymentStream(platform.bootstrap_servers, topic=PAYMENTS, rate=rate, seed=int(time.time()))
    # They flow from now on: what is there already gives the first alerts as soon as the application runs.
    with Sender(stream) as sender:
        with _step(f"deploying {APPLICATION}") as tell:
            platform.deploy(tell, is_at_work=lambda: bool(readings.alerts))
        control = platform.control_plane
        out.print(f"control plane  {control}\nmetrics        {control}/metrics")
        with recording_classes():
            _watch(platform, sender, readings, seconds=seconds)
    with _step("waiting until everything is processed"):
        _catch_up(platform)
    with _step(f"stopping {APPLICATION}"):
        platform.stop_application()
    # The topic itself says what was sent, in which order: an acknowledgement that came twice has no offset.
    readers.append(TopicReader(platform.bootstrap_servers, PAYMENTS, readings.payment))
    for reader in readers:
        reader.read_to_the_end()
    committed = committed_offsets(platform.bootstrap_servers, APPLICATION, PAYMENTS)
    comparison = compare(
        readings.payments,
        committed,
        readings.alerts,
        acknowledged=stream.sent,
        dead_letters=readings.dead_letters,
    )
    out.print("\n" + "\n".join(comparison.lines()), style="green" if comparison.ok else "red", markup=False)
    return comparison.ok


@contextmanager
def _step(text: str) -> Iterator[Callable[[str], None]]:
    """A part of the demo that takes a while, and how long it took."""
    begin = time.monotonic()
    with progress(text) as tell:
        yield tell
    messages.print(f"{text}: {time.monotonic() - begin:.0f} s", style="dim", markup=False)


class Sender:
    """Sends payments in a thread of its own as long as it is open.

    Args:
        stream: what is sent.
    """

    def __init__(self, stream: PaymentStream) -> None:
        self.stream = stream
        self._ended = threading.Event()
        self._failures: list[Exception] = []
        self._thread = threading.Thread(target=self._run, name="payments", daemon=True)

    def __enter__(self) -> Sender:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(60)
        if self._failures and error is None:
            raise self._failures[0]

    @property
    def is_alive(self) -> bool:
        """Whether it still sends."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.stream.run(self._ended)
        except Exception as error:
            self._failures.append(error)


def _watch(platform: Platform, sender: Sender, readings: Readings, *, seconds: float | None) -> None:
    """Reports now and then until the demo is to end."""
    limit = f"for {seconds:g} s" if seconds else "until Ctrl-C"
    out.print(f"payments flow {limit}\n", style="bold")
    begin = time.monotonic()
    before = (begin, 0)
    while sender.is_alive:
        left = None if seconds is None else begin + seconds - time.monotonic()
        if (left is not None and left <= 0) or platform.ended.wait(min(_REPORT_EVERY_S, left or _REPORT_EVERY_S)):
            break
        before = _report(platform, sender.stream, readings, before)
    platform.ended.set()


def _report(
    platform: Platform, stream: PaymentStream, readings: Readings, before: tuple[float, int]
) -> tuple[float, int]:
    """Prints how it goes; the moment and the number of processed payments, for the next rate."""
    seen = launch.observe(Application(platform.home, APPLICATION))
    now, records = time.monotonic(), seen.records or 0
    rate = max(0, records - before[1]) / (now - before[0])
    lag = "unknown" if seen.lag is None else f"{seen.lag:,}"
    messages.print(
        f"{seen.state or seen.verdict.value}: {stream.sent:,} payments sent, {rate:,.0f} processed/s, lag {lag}, "
        f"{len(readings.alerts)} alerts, {readings.dead_letters} dead-letter records",
        style="dim",
        markup=False,
    )
    return now, records


def _catch_up(platform: Platform) -> None:
    """Waits, for a while, until the application has committed all that was sent; the comparison tells what is left."""
    ends = end_offsets(platform.bootstrap_servers, PAYMENTS)
    deadline = time.monotonic() + _CATCH_UP_LIMIT_S
    while time.monotonic() < deadline:
        committed = committed_offsets(platform.bootstrap_servers, APPLICATION, PAYMENTS)
        if all(committed.get(partition, 0) >= end for partition, end in ends.items()):
            return
        time.sleep(0.5)


def main() -> int:
    """0 if the alerts were right, 1 if not or if something failed, 130 if it was ended before payments flowed."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="three brokers, a Spark cluster with two workers, Airflow on PostgreSQL, instead of the smallest of each",
    )
    parser.add_argument("--seconds", type=float, help="how long payments flow; without it until Ctrl-C")
    parser.add_argument("--rate", type=float, default=500, help="payments a second")
    parser.add_argument("--verbose", action="store_true", help="show the traceback of an error")
    options = parser.parse_args()
    configure_logs(level=logging.WARNING, log_format=LogFormat.CONSOLE)
    try:
        platform = prepare(millrace_home(), ClusterPlatform if options.cluster else Platform)
    except MillraceError as error:
        show_error(error, verbose=options.verbose)
        return 1
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: platform.ended.set())
    code = 1
    try:
        code = 0 if run(platform, seconds=options.seconds, rate=options.rate) else 1
    except Interrupted:
        code = 130
    except Exception as error:
        show_error(error, verbose=options.verbose)
    with _step("stopping everything") as tell:
        killed = platform.stop(tell)
    if killed:
        for pid, command in killed.items():
            messages.print(f"left behind and killed: {pid} {command}", style="red", markup=False)
        code = code or 1
    else:
        messages.print("everything is stopped, no process is left")
    return code


if __name__ == "__main__":
    sys.exit(main())
