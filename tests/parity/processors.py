"""Processors of scenarios, by name. ``java/RunScenarios.java`` has the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from millrace.dsl import (
    Cancellable,
    FixedKeyProcessor,
    FixedKeyRecord,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    StoreBuilder,
    Stores,
    StoreSupplier,
    ValueAndTimestamp,
    ValueTransformerWithKey,
    VersionedRecord,
)
from millrace.serdes import JsonSerde, StringSerde, Windowed
from tests.parity.functions import _fails_on_13 as fails_on_13
from tests.parity.functions import _or_zero as or_zero
from tests.parity.functions import number

KEY = StringSerde()
VALUE = JsonSerde()

STREAM_TIME = PunctuationType.STREAM_TIME
WALL_CLOCK_TIME = PunctuationType.WALL_CLOCK_TIME


def store_builder(step: dict[str, Any]) -> StoreBuilder:
    """The store of a step ``state_store``."""
    made = _store_builder(step, step["state"])
    return made if step.get("logged", True) else made.with_logging_disabled()


def _store_builder(step: dict[str, Any], name: str) -> StoreBuilder:
    place = step.get("place", "disk")
    match step["kind"]:
        case "key-value":
            return Stores.key_value_store_builder(_key_value_supplier(place, name), KEY, VALUE)
        case "timestamped" if place == "disk":
            supplier = Stores.persistent_timestamped_key_value_store(name)
            return Stores.timestamped_key_value_store_builder(supplier, KEY, VALUE)
        case "timestamped":
            return Stores.timestamped_key_value_store_builder(_key_value_supplier(place, name), KEY, VALUE)
        case "window":
            make = Stores.in_memory_window_store if place == "memory" else Stores.persistent_window_store
            return Stores.window_store_builder(make(name, step["retention"], step["size"]), KEY, VALUE)
        case "timestamped window":
            make = Stores.in_memory_window_store if place == "memory" else Stores.persistent_timestamped_window_store
            return Stores.timestamped_window_store_builder(make(name, step["retention"], step["size"]), KEY, VALUE)
        case "versioned":
            history = Stores.persistent_versioned_key_value_store(name, step["retention"], step.get("segment_interval"))
            return Stores.versioned_key_value_store_builder(history, KEY, VALUE)
        case _:
            sessions = Stores.in_memory_session_store if place == "memory" else Stores.persistent_session_store
            return Stores.session_store_builder(sessions(name, step["retention"]), KEY, VALUE)


def _key_value_supplier(place: str, name: str) -> StoreSupplier:
    if place.startswith("lru "):
        return Stores.lru_map(name, int(place.removeprefix("lru ")))
    return Stores.in_memory_key_value_store(name) if place == "memory" else Stores.persistent_key_value_store(name)


def _text(value: int | None) -> str:
    return "null" if value is None else str(value)


class _Base(Processor[Any, Any]):
    def store(self, name: str) -> Any:
        return self.context.get_state_store(name)


class Pass(_Base):
    def process(self, record: Record[Any, Any], /) -> None:
        self.context.forward(record)


class Deduplicate(_Base):
    def process(self, record: Record[Any, Any], /) -> None:
        seen = self.store("seen")
        for _ in seen.fetch(record.key, record.timestamp - 20, record.timestamp + 20):
            return
        seen.put(record.key, record.value, record.timestamp)
        self.context.forward(record)


class TotalAndLatest(_Base):
    def process(self, record: Record[Any, Any], /) -> None:
        totals, latest = self.store("totals"), self.store("latest")
        total = or_zero(totals.get(record.key)) + or_zero(record.value)
        totals.put(record.key, None if total % 5 == 0 else total)
        before = latest.get(record.key)
        latest.put(record.key, None if record.value is None else ValueAndTimestamp(total, record.timestamp + 1))
        self.context.forward(record.with_value(total))
        seen = "none" if before is None else str(before.timestamp)
        self.context.forward(record.with_value(seen).with_timestamp(record.timestamp + 1000))


class EmitByStreamTime(_Base):
    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        context.schedule(10, STREAM_TIME, self.emit)

    def emit(self, now: int) -> None:
        for key, value in self.store("totals").all():
            self.context.forward(Record(key, value, now))
        self.store("totals").put("emitted", now)

    def process(self, record: Record[Any, Any], /) -> None:
        totals = self.store("totals")
        totals.put(record.key, or_zero(totals.get(record.key)) + or_zero(record.value))
        self.context.forward(record)


class TwoPunctuations(_Base):
    second: Cancellable

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        for interval in (10, 20, 30):
            made = context.schedule(interval, STREAM_TIME, self.emitter(interval))
            if interval == 20:
                self.second = made

    def emitter(self, interval: int) -> Callable[[int], None]:
        def emit(now: int) -> None:
            self.context.forward(Record(f"every {interval}", self.context.current_stream_time_ms(), now))
            if interval == 20 and now >= 60:
                self.second.cancel()

        return emit

    def process(self, record: Record[Any, Any], /) -> None:
        self.context.forward(record.with_value(self.context.current_stream_time_ms()))


class ScheduleInProcess(_Base):
    scheduled: Cancellable | None = None

    def process(self, record: Record[Any, Any], /) -> None:
        self.context.forward(record)
        if or_zero(record.value) == 7:
            since = record.timestamp
            self.scheduled = self.context.schedule(
                15, STREAM_TIME, lambda now: self.context.forward(Record(f"since {since}", now, now))
            )
        if or_zero(record.value) == 8 and self.scheduled is not None:
            self.scheduled.cancel()


class EmitByWallClock(_Base):
    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.start = context.current_system_time_ms()
        self.count = 0
        context.schedule(100, WALL_CLOCK_TIME, self.emit)

    def emit(self, now: int) -> None:
        self.context.forward(Record("after", now - self.start, 5))
        self.count += 1
        self.store("totals").put("punctuated", self.count)

    def process(self, record: Record[Any, Any], /) -> None:
        self.store("totals").put(record.key, record.value)
        self.context.forward(record)


class StartTimes(_Base):
    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        start = context.current_system_time_ms()
        context.schedule(10, STREAM_TIME, lambda now: context.forward(Record("from 25", now, now)), start_time=25)
        context.schedule(
            100,
            WALL_CLOCK_TIME,
            lambda now: context.forward(Record("anchored", now - start, 1)),
            start_time=start - 30,
        )
        context.schedule(
            100, WALL_CLOCK_TIME, lambda now: context.forward(Record("later", now - start, 1)), start_time=start + 250
        )

    def process(self, record: Record[Any, Any], /) -> None:
        self.context.forward(record)
        if or_zero(record.value) == 7:
            self.context.schedule(
                10, STREAM_TIME, lambda now: self.context.forward(Record("from 3", now, now)), start_time=3
            )


class AddHeader(_Base):
    def process(self, record: Record[Any, Any], /) -> None:
        headers = (*record.headers, ("seen", _key_text(record.key).encode()))
        self.context.forward(record.with_headers(headers).with_timestamp(record.timestamp + 1))


def _key_text(key: str | None) -> str:
    return "null" if key is None else key


class ToChildren(_Base):
    def process(self, record: Record[Any, Any], /) -> None:
        amount = or_zero(record.value)
        self.context.forward(record, "odd" if amount % 2 else "even")
        if amount % 10 == 0:
            self.context.forward(record.with_key("all"))
        if amount == 13:
            self.context.forward(record, "missing")


class ToBothAndOne(_Base):
    def process(self, record: Record[Any, Any], /) -> None:
        self.context.forward(record.with_key("first"))
        self.context.forward(record.with_key("second"), "odd")
        self.context.forward(record.with_key("third"), "even")
        self.context.forward(record.with_key("fourth"))


class WriteShared(_Base):
    def process(self, record: Record[Any, Any], /) -> None:
        shared = self.store("shared")
        shared.put(record.key, or_zero(record.value))
        self.context.forward(record.with_value(1))
        shared.put(record.key, or_zero(record.value) + 100)
        self.context.forward(record.with_value(2))
        self.context.forward(record.with_key("back").with_value(shared.get("reader")))


class ReadShared(_Base):
    def process(self, record: Record[Any, Any], /) -> None:
        shared = self.store("shared")
        seen = f"{_text(number(record.value))}|{_text(number(shared.get(record.key)))}"
        self.context.forward(record.with_value(seen))
        shared.put("reader", or_zero(shared.get("reader")) + 1)


class LookUp(_Base):
    def process(self, record: Record[Any, Any], /) -> None:
        found = None if record.key is None else self.store("table-store").get(record.key)
        seen = "none" if found is None else f"{_text(number(found.value))}@{found.timestamp}"
        self.context.forward(record.with_value(seen))


class FailsOn13(_Base):
    def process(self, record: Record[Any, Any], /) -> None:
        self.store("totals").put(record.key, record.value)
        self.context.forward(record)
        fails_on_13(record.value)
        self.context.forward(record.with_key("again"))


class FailsFirst(_Base):
    def process(self, record: Record[Any, Any], /) -> None:
        fails_on_13(record.value)
        self.context.forward(record)


class PunctuationFails(_Base):
    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        context.schedule(10, STREAM_TIME, self.emit)

    def emit(self, now: int) -> None:
        self.context.forward(Record("before", now, now))
        self.store("totals").put("punctuated", now)
        if 30 <= now < 60:
            raise ValueError("punctuation")
        self.context.forward(Record("behind", 13, now))

    def process(self, record: Record[Any, Any], /) -> None:
        self.context.forward(record)


def _entries(entries: Iterable[tuple[str, Any]]) -> str:
    return "".join(f"{key}={_text(number(value))};" for key, value in entries)


class Scan(_Base):
    def process(self, record: Record[Any, Any], /) -> None:
        totals = self.store("totals")
        absent = totals.put_if_absent(record.key, record.value)
        forward = self.context.forward
        forward(record.with_key("absent").with_value(_text(number(absent))))
        forward(record.with_key("range").with_value(_entries(totals.range("a", "b"))))
        forward(record.with_key("to").with_value(_entries(totals.range(None, "aa"))))
        forward(record.with_key("reverse").with_value(_entries(totals.reverse_range("a", "b"))))
        forward(record.with_key("all").with_value(_entries(totals.all())))
        forward(record.with_key("reverse all").with_value(_entries(totals.reverse_all())))
        forward(record.with_key("prefix").with_value(_entries(totals.prefix_scan("a"))))
        if or_zero(record.value) == 7:
            forward(record.with_key("deleted").with_value(_text(number(totals.delete(record.key)))))
            totals.put_all([("aa", 70), ("c", 71)])


def _windowed(entries: Iterable[tuple[Windowed, Any]]) -> str:
    return "".join(f"{at.key}@{at.start}-{at.end}={_text(number(value))};" for at, value in entries)


class Windows(_Base):
    def process(self, record: Record[Any, Any], /) -> None:
        windows, forward = self.store("windows"), self.context.forward
        start = record.timestamp - record.timestamp % 10
        before = windows.fetch(record.key, start)
        new = None if or_zero(record.value) == 7 else or_zero(before) + or_zero(record.value)
        windows.put(record.key, new, start)
        forward(record.with_key("before").with_value(_text(number(before))))
        backward = windows.backward_fetch(record.key, start - 30, start + 10)
        forward(record.with_key("backward").with_value("".join(f"{at}={_text(number(v))};" for at, v in backward)))
        forward(record.with_key("keys").with_value(_windowed(windows.fetch_range("a", "aa", 0, start))))
        forward(record.with_key("times").with_value(_windowed(windows.fetch_all(start - 20, start))))
        forward(record.with_key("all").with_value(_windowed(windows.all())))


class Sessions(_Base):
    def process(self, record: Record[Any, Any], /) -> None:
        sessions, at = self.store("sessions"), record.timestamp
        start = end = at
        total = or_zero(record.value)
        merged = []
        for session, value in sessions.find_sessions(record.key, at - 10, at + 10):
            start, end = min(start, session.start), max(end, session.end)
            total += or_zero(value)
            merged.append(session)
        for session in merged:
            sessions.remove(session)
        sessions.put(Windowed(record.key, start, end), total)
        text = "|".join(
            (
                _windowed(sessions.fetch(record.key)),
                _windowed(sessions.backward_fetch(record.key)),
                _text(number(sessions.fetch_session(record.key, start, end))),
            )
        )
        self.context.forward(record.with_value(text))


def _stamped(found: ValueAndTimestamp[Any] | None) -> str:
    return "none" if found is None else f"{_text(number(found.value))}@{found.timestamp}"


class StampedScan(_Base):
    def process(self, record: Record[Any, Any], /) -> None:
        latest, forward = self.store("latest"), self.context.forward
        new = ValueAndTimestamp(record.value, max(0, record.timestamp - 1))
        absent = latest.put_if_absent(record.key, None if record.value is None else new)
        forward(record.with_key("absent").with_value(_stamped(absent)))
        scans = {
            "range": latest.range("a", "b"),
            "reverse": latest.reverse_range("a", None),
            "all": latest.all(),
            "reverse all": latest.reverse_all(),
            "prefix": latest.prefix_scan("a"),
        }
        for key, entries in scans.items():
            text = "".join(f"{name}={_stamped(found)};" for name, found in entries)
            forward(record.with_key(key).with_value(text))
        if or_zero(record.value) == 7:
            forward(record.with_key("deleted").with_value(_stamped(latest.delete(record.key))))
            latest.put_all([("aa", ValueAndTimestamp(70, 5)), ("c", ValueAndTimestamp(71, record.timestamp))])


class StampedWindows(_Base):
    def process(self, record: Record[Any, Any], /) -> None:
        windows, forward = self.store("stamped"), self.context.forward
        start = record.timestamp - record.timestamp % 10
        before = windows.fetch(record.key, start)
        total = or_zero(None if before is None else before.value) + or_zero(record.value)
        new = None if or_zero(record.value) == 7 else ValueAndTimestamp(total, record.timestamp + 3)
        windows.put(record.key, new, start)
        forward(record.with_key("before").with_value(_stamped(before)))
        backward = windows.backward_fetch(record.key, start - 30, start + 10)
        forward(record.with_key("backward").with_value("".join(f"{at}={_stamped(found)};" for at, found in backward)))
        scans = {
            "keys": windows.fetch_range("a", "aa", 0, start),
            "times": windows.fetch_all(start - 20, start),
            "all": windows.all(),
        }
        for key, entries in scans.items():
            text = "".join(f"{at.key}@{at.start}-{at.end}={_stamped(found)};" for at, found in entries)
            forward(record.with_key(key).with_value(text))


def _version(found: VersionedRecord[Any] | None) -> str:
    return "none" if found is None else f"{_text(number(found.value))}@{found.timestamp}"


class History(_Base):
    def process(self, record: Record[Any, Any], /) -> None:
        history, forward = self.store("history"), self.context.forward
        at, amount = record.timestamp, or_zero(record.value)
        since = max(0, at - 4) if amount % 2 == 0 else at
        if amount == 7:
            text = f"deleted {_version(history.delete(record.key, since))}"
        else:
            text = f"put {history.put(record.key, record.value, since)}"
        forward(record.with_value(text))
        found = [history.get(record.key), *(history.get(record.key, max(0, at - ago)) for ago in (0, 1, 5, 20, 1000))]
        forward(record.with_value("|".join(map(_version, found))))


class LookUpVersion(_Base):
    def process(self, record: Record[Any, Any], /) -> None:
        rows = self.store("table-store")
        found = (rows.get(record.key), rows.get(record.key, record.timestamp))
        self.context.forward(record.with_value("|".join(map(_version, found))))


class Metadata(_Base):
    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        context.schedule(10, STREAM_TIME, lambda now: context.forward(Record("punctuation", now, now)))

    def process(self, record: Record[Any, Any], /) -> None:
        found = self.context.record_metadata()
        place = "none" if found is None else f"{found.topic}-{found.partition}@{found.offset}"
        text = f"{place}|{self.context.current_stream_time_ms()}|{self.context.application_id}"
        self.context.forward(record.with_value(text))


class RunningTotal(FixedKeyProcessor[Any, Any]):
    def process(self, record: FixedKeyRecord[Any, Any], /) -> None:
        totals = self.context.get_state_store("totals")
        total = or_zero(totals.get(record.key)) + or_zero(record.value)
        totals.put(record.key, total)
        self.context.forward(record.with_value(total))
        if total % 2 == 0:
            self.context.forward(record.with_timestamp(record.timestamp + 5))


class StatefulTransformer(ValueTransformerWithKey[Any, Any, Any]):
    def transform(self, key: Any, value: Any, /) -> Any:
        totals = self.context.get_state_store("totals")
        count = or_zero(totals.get(key)) + 1
        totals.put(key, count)
        return None if value is None else or_zero(value) + 1000 * count


PROCESSORS: dict[str, Callable[[], Processor[Any, Any]]] = {
    "deduplicate": Deduplicate,
    "total and latest": TotalAndLatest,
    "emit by stream time": EmitByStreamTime,
    "two punctuations": TwoPunctuations,
    "schedule in process": ScheduleInProcess,
    "emit by wall clock": EmitByWallClock,
    "start times": StartTimes,
    "header": AddHeader,
    "to children": ToChildren,
    "to both and one": ToBothAndOne,
    "write shared": WriteShared,
    "read shared": ReadShared,
    "look up": LookUp,
    "fails on 13": FailsOn13,
    "fails first": FailsFirst,
    "punctuation fails": PunctuationFails,
    "scan": Scan,
    "windows": Windows,
    "sessions": Sessions,
    "stamped scan": StampedScan,
    "stamped windows": StampedWindows,
    "history": History,
    "look up version": LookUpVersion,
    "metadata": Metadata,
    "pass": Pass,
}
FIXED_KEY_PROCESSORS: dict[str, Callable[[], FixedKeyProcessor[Any, Any]]] = {"running total": RunningTotal}
