"""Whose turn it is among the test driver's topics."""

from __future__ import annotations

from millrace.testing.turns import TopicTurns


def taken(turns: TopicTurns[str]) -> list[str]:
    order = []
    while turns:
        topic, record = turns.next()
        order.append(topic + record)
    return order


def waiting(*records: tuple[str, int]) -> TopicTurns[str]:
    turns: TopicTurns[str] = TopicTurns()
    for number, (topic, timestamp) in enumerate(records):
        turns.add(topic, timestamp, str(number))
    return turns


def test_the_topic_whose_first_record_is_the_oldest_goes_on() -> None:
    assert taken(waiting(("a", 5), ("b", 3), ("a", 1), ("b", 4), ("c", 9))) == ["b1", "b3", "a0", "a2", "c4"]


def test_a_topic_keeps_the_order_of_its_records_whatever_their_times() -> None:
    assert taken(waiting(("a", 5), ("a", 1), ("b", 2))) == ["b2", "a0", "a1"]


def test_among_equals_the_turns_are_those_of_a_java_priority_queue() -> None:
    """``java.util.PriorityQueue`` with a, b, c, d of one time, each with two records, gives this order."""
    topics = [(topic, 7) for topic in "abcd"]
    assert taken(waiting(*topics, *topics)) == ["a0", "d3", "a4", "d7", "c2", "b1", "c6", "b5"]


def test_records_can_come_in_between() -> None:
    turns = waiting(("a", 5), ("b", 8))
    assert turns.next() == ("a", "0")
    turns.add("c", 6, "2")
    turns.add("a", 9, "3")
    assert taken(turns) == ["c2", "b1", "a3"]
    assert not turns
