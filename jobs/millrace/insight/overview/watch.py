"""Looks at all applications again and again while a reader wants to know, so that no page ever waits for a driver.

Each application has two threads of its own, one that looks at it and one that lists its savepoints: what hangs hangs
alone. They end when nobody has asked for some minutes, and begin again with the next question.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from millrace.driver.status import ApplicationStatus
from millrace.errors import ConfigurationError, OperationError
from millrace.insight.overview.assemble import details, overview
from millrace.insight.overview.history import History
from millrace.insight.overview.model import ApplicationDetails, ApplicationOverview, Savepoints
from millrace.insight.overview.operation_history import journal_end, last_operations, savepoints_of
from millrace.insight.overview.probe import ApplicationProbe, probe_application, unknown
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.spec import load_specs

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """How often to look.

    Args:
        interval_s: seconds between probes of an application.
        savepoints_interval_s: seconds between lists of its savepoints.
        first_probe_s: how long a question waits for first probes, seconds; what has not answered by then is said so.
        idle_s: nobody has asked for so long: stop looking, seconds.
        slow_s: a probe that takes longer is told, seconds.
    """

    interval_s: float = 5.0
    savepoints_interval_s: float = 30.0
    first_probe_s: float = 4.0
    idle_s: float = 300.0
    slow_s: float = 15.0


@dataclass
class _Watched:
    """What is known of one application. Fields are replaced as a whole."""

    name: str
    gone: threading.Event = field(default_factory=threading.Event)
    probed: threading.Event = field(default_factory=threading.Event)
    probe: ApplicationProbe | None = None
    last_status: ApplicationStatus | None = None
    savepoints: Savepoints = field(default_factory=Savepoints)
    history: History = field(default_factory=History)
    begun_at: float = field(default_factory=time.time)


def known_applications(home: Home) -> tuple[str, ...]:
    """Names of all applications that have a specification or were deployed, sorted.

    Where the specifications cannot be listed, those that were deployed are left; what is wrong is in the log, and in
    what is seen of each.
    """
    try:
        specified = list(load_specs(home.specs))
    except ConfigurationError as error:
        log.warning("specifications cannot be listed", problem=str(error))
        specified = []
    return tuple(sorted({*specified, *home.deployed()}))


class OverviewWatch:
    """Overviews of an installation's applications. Safe to use from any thread.

    Args:
        home: the installation.
        options: how often to look.
    """

    def __init__(self, home: Home, options: WatchOptions | None = None) -> None:
        self.home = home
        self._options = options or WatchOptions()
        self._watched: dict[str, _Watched] = {}
        self._lock = threading.Lock()
        self._asked_at = time.monotonic()

    def applications(self) -> tuple[ApplicationOverview, ...]:
        """All applications by name; waits for first probes only, and not long."""
        watched = self._keep_up()
        deadline = time.monotonic() + self._options.first_probe_s
        for each in watched:
            each.probed.wait(max(0.0, deadline - time.monotonic()))
        return tuple(overview(self._probe(each), each.history.samples(), each.savepoints) for each in watched)

    def application(self, name: str) -> ApplicationDetails:
        """One application.

        Raises:
            OperationError: there is none of that name.
        """
        each = next((each for each in self._keep_up() if each.name == name), None)
        if each is None:
            raise no_such_application(name)
        each.probed.wait(self._options.first_probe_s)
        directory = self.home.application(name)
        operations, problem = last_operations(directory)
        probe = self._probe(each)
        if problem:
            probe = ApplicationProbe(**{**vars(probe), "problem": "; ".join(filter(None, (probe.problem, problem)))})
        return details(
            probe,
            each.history.samples(),
            each.savepoints,
            last_status=each.last_status,
            journal=journal_end(directory),
            operations=operations,
            log=str(directory.log),
        )

    def close(self) -> None:
        """End all threads; one that waits for a driver ends when that has answered."""
        with self._lock:
            for each in self._watched.values():
                each.gone.set()
            self._watched = {}

    def _keep_up(self) -> list[_Watched]:
        """Watch what is new, forget what is gone."""
        names = known_applications(self.home)
        with self._lock:
            self._asked_at = time.monotonic()
            for name in set(self._watched) - set(names):
                self._watched.pop(name).gone.set()
            for name in names:
                if name not in self._watched or self._watched[name].gone.is_set():
                    self._watched[name] = self._watch(name)
            return [self._watched[name] for name in names]

    def _watch(self, name: str) -> _Watched:
        watched = _Watched(name)
        for what, work, interval_s in (
            ("look", self._probe_again, self._options.interval_s),
            ("savepoints", self._list_savepoints, self._options.savepoints_interval_s),
        ):
            threading.Thread(
                target=self._repeat, args=(watched, work, interval_s), name=f"overview-{what}-{name}", daemon=True
            ).start()
        return watched

    def _repeat(self, watched: _Watched, work: Callable[[_Watched], None], interval_s: float) -> None:
        while not watched.gone.is_set():
            work(watched)
            watched.gone.wait(interval_s)
            with self._lock:
                if time.monotonic() - self._asked_at > self._options.idle_s:
                    watched.gone.set()

    def _probe_again(self, watched: _Watched) -> None:
        probe = probe_application(Application(self.home, watched.name))
        watched.probe = probe
        watched.last_status = probe.status or watched.last_status
        if (sample := probe.sample()) is not None:
            watched.history.add(sample)
        watched.probed.set()

    def _list_savepoints(self, watched: _Watched) -> None:
        watched.savepoints = savepoints_of(Application(self.home, watched.name))

    def _probe(self, watched: _Watched) -> ApplicationProbe:
        now = time.time()
        if watched.probe is None:
            return unknown(watched.name, f"it has not been seen for {now - watched.begun_at:.0f} s", at=now)
        late = now - watched.probe.at
        if late > self._options.slow_s:
            problem = f"what is shown is {late:.0f} s old: its driver takes that long to answer"
            return ApplicationProbe(
                **{**vars(watched.probe), "problem": "; ".join(filter(None, (watched.probe.problem, problem)))}
            )
        return watched.probe


def no_such_application(name: str) -> OperationError:
    """The error for a name that is none."""
    return OperationError(f"There is no application {name!r}.", remedy="see all of them with `millrace status`")
