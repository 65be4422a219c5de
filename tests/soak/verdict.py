"""Counts what is lost, doubled or wrong in the committed output and in the stores, against the independent model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence

from tests.chaos.model import Expected, expected_of, long_of, window_of
from tests.records import ReadRecord, read_topic
from tests.soak.tally import Tally


def judge_output(bootstrap_servers: str, prefix: str, tally: Tally) -> Expected:
    """Compares every output topic of a caught-up application with what the model makes of the input."""
    records = read_topic(bootstrap_servers, f"{prefix}-in")
    expected = expected_of(records)
    tally.records = len(records)
    for partition, numbers in expected.copy.items():
        found = [
            int(record.value or b"")
            for record in read_topic(bootstrap_servers, f"{prefix}-copy")
            if record.partition == partition
        ]
        compare(f"copy-{partition}", found, numbers, tally)
    running = _by_key(read_topic(bootstrap_servers, f"{prefix}-running"))
    buckets = _by_key(read_topic(bootstrap_servers, f"{prefix}-buckets"))
    for key, counts in expected.running.items():
        compare(f"running count of {key!r}", running[key], [count for count, _ in counts], tally)
    for bucket, count in expected.buckets.items():
        compare(f"running count of {bucket!r}", buckets[bucket], range(1, count + 1), tally)
    _judge_folds(read_topic(bootstrap_servers, f"{prefix}-folds"), expected, tally)
    return expected


def judge_final_output(
    bootstrap_servers: str,
    prefix: str,
    tally: Tally,
    *,
    outputs: str,
    since: Mapping[tuple[str, int], int],
    read: Mapping[tuple[str, int], int],
    everything: bool,
) -> None:
    """Compares the last record of each key with the model: of an application that was reset or restored, what it had
    written before stays in its output topics, and is of windows that it may never come to again.

    Args:
        bootstrap_servers: the broker.
        prefix: of the topics.
        tally: takes what is wrong.
        outputs: second prefix of the output topics.
        since: where its run began in the output topics.
        read: committed offsets of the input: the model makes its output of what is before them.
        everything: whether it has processed its input from the beginning; otherwise only keys that came again since
            have an output.
    """
    records = read_topic(bootstrap_servers, f"{prefix}-in")
    expected = expected_of([each for each in records if each.offset < read[each.topic, each.partition]])
    found: dict[Hashable, int] = {}
    for record in _read_since(bootstrap_servers, f"{prefix}-{outputs}running", since):
        found["running", record.key] = long_of(record.value)
    for record in _read_since(bootstrap_servers, f"{prefix}-{outputs}folds", since):
        found["fold", *window_of(record.key)] = long_of(record.value)
    wanted: dict[Hashable, int] = {
        **{("running", key): counts[-1][0] for key, counts in expected.running.items()},
        **{("fold", *window): steps[-1] for window, steps in expected.folds.items()},
    }
    if not everything:
        wanted = {key: value for key, value in wanted.items() if key in found}
    compare_entries(f"last output of {outputs}", found, wanted, tally)


def compare(what: str, found: Sequence[int], wanted: Sequence[int], tally: Tally) -> None:
    """Sequences that have to be equal."""
    if list(found) == list(wanted):
        return
    lost = Counter(wanted) - Counter(found)
    doubled = Counter(found) - Counter(wanted)
    known = set(wanted)
    strangers = sum(count for value, count in doubled.items() if value not in known)
    tally.lost += lost.total()
    tally.doubled += doubled.total() - strangers
    # The same records in another order are wrong as well.
    tally.wrong += strangers or int(not lost and not doubled)
    tally.example(f"{what}: lost {sorted(lost.elements())[:5]}, too often {sorted(doubled.elements())[:5]}")


def _read_since(bootstrap_servers: str, topic: str, since: Mapping[tuple[str, int], int]) -> list[ReadRecord]:
    records = read_topic(bootstrap_servers, topic)
    return [each for each in records if each.offset >= since[each.topic, each.partition]]


def compare_entries(
    what: str, found: Mapping[Hashable, object], wanted: Mapping[Hashable, object], tally: Tally
) -> None:
    """Mappings that have to be equal."""
    missing = [key for key in wanted if key not in found]
    surplus = [key for key in found if key not in wanted]
    differing = [key for key in wanted if key in found and found[key] != wanted[key]]
    tally.entries += len(wanted)
    tally.lost += len(missing)
    tally.wrong += len(surplus) + len(differing)
    if missing or surplus or differing:
        tally.example(
            f"{what}: missing {missing[:3]}, too many {surplus[:3]}, "
            f"different {[(key, found[key], wanted[key]) for key in differing[:3]]}"
        )


def _judge_folds(records: Sequence[ReadRecord], expected: Expected, tally: Tally) -> None:
    """With a cache some steps are left out, but none comes twice or before an earlier one, and the last one comes."""
    seen: dict[tuple[bytes, int], list[int]] = defaultdict(list)
    for record in records:
        seen[window_of(record.key)].append(long_of(record.value))
    for window, steps in expected.folds.items():
        values = seen.pop(window, [])
        index_of = {value: index for index, value in enumerate(steps)}
        strangers = [value for value in values if value not in index_of]
        order = [index_of[value] for value in values if value in index_of]
        tally.wrong += len(strangers) + int(order != sorted(order))
        tally.doubled += len(order) - len(set(order))
        tally.lost += int(not order or order[-1] != len(steps) - 1)
        if strangers or order != sorted(set(order)) or not order or order[-1] != len(steps) - 1:
            tally.example(f"folds of {window}: places {order} of {len(steps)} steps, strangers {strangers[:3]}")
    tally.wrong += len(seen)
    if seen:
        tally.example(f"folds of windows that are late or not there: {list(seen)[:3]}")


def _by_key(records: Sequence[ReadRecord]) -> dict[bytes | None, list[int]]:
    values: dict[bytes | None, list[int]] = defaultdict(list)
    for record in records:
        values[record.key].append(long_of(record.value))
    return values
