from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import BrokerUnavailableError, OperationError, StateError
from millrace.kafka.refusals import RecordsRefusedError
from millrace.spark.stream_threads import messages as m
from millrace.spark.stream_threads.frames import MessageError
from millrace.spark.stream_threads.problems import Problem, error_of, problem_of

# JSON has no other numbers, and no message says any.
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))

FROM_THREAD = st.one_of(*(st.from_type(each) for each in (m.Report, m.Failed, m.Goodbye, m.Alive, m.Hello)))
FROM_DRIVER = st.one_of(*(st.from_type(each) for each in (m.Welcome, m.Assign, m.CommitNow, m.End, m.Alive)))


@given(FROM_THREAD)
def test_what_a_thread_says_comes_back_as_it_was(message: m.FromThread):
    assert m.from_thread(m.from_thread_to_bytes(message)) == message


@given(FROM_DRIVER)
def test_what_the_driver_says_comes_back_as_it_was(message: m.FromDriver):
    assert m.from_driver(m.from_driver_to_bytes(message)) == message


def test_arguments_and_answers_are_json():
    act = m.Act(command=1, action="compact-database", arguments={"budget_s": None}, tasks=("0_1",))
    answer = m.Answer(command=1, answers={"0_1": {"host": "a", "parts": [1, 2.5, None]}}, missing=("0_2",))
    assert m.from_driver(m.from_driver_to_bytes(act)) == act
    assert m.from_thread(m.from_thread_to_bytes(answer)) == answer


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b'{"kind": "unknown"}',
        b'{"kind": "alive"}',
        b'{"kind": "alive", "seen": 1, "more": 2}',
        b'{"kind": "alive", "seen": "many"}',
        b'{"kind": "report", "sequence": 1, "generation": 1, "tasks": [{"task": "0_0", "state": "asleep"}]}',
        (
            b'{"kind": "report", "sequence": 1, "generation": 1, "tasks": [{"task": "0_0", "state": "running", '
            b'"positions": [["a", 1]]}]}'
        ),
    ],
)
def test_a_malformed_message_is_refused(data: bytes):
    with pytest.raises(MessageError, match="malformed"):
        m.from_thread(data)


def test_a_driver_does_not_take_what_only_a_driver_says():
    with pytest.raises(MessageError):
        m.from_thread(m.from_driver_to_bytes(m.End("enough")))


def test_offsets_keep_topics_with_dashes_apart():
    positions = {("a-1", 2): 3, ("a", 12): 4}
    assert m.positions_of(m.offsets_of(positions)) == positions


class _OwnStateError(StateError):
    pass


class TestProblems:
    @pytest.mark.parametrize(
        "error", [StateError("gone", remedy="restore"), BrokerUnavailableError("away", remedy="wait")]
    )
    def test_an_error_of_ours_comes_back_as_its_class(self, error):
        back = error_of(problem_of(error))
        assert (type(back), back.message, back.remedy) == (type(error), error.message, error.remedy)

    def test_a_class_that_the_other_side_may_not_have_becomes_the_nearest_that_it_has(self):
        assert type(error_of(problem_of(_OwnStateError("gone")))) is StateError
        assert issubclass(RecordsRefusedError, Exception)

    def test_any_other_error_becomes_one_of_ours_that_names_its_class(self):
        back = error_of(problem_of(ValueError("no number")))
        assert type(back) is OperationError
        assert back.message == "ValueError: no number"

    @pytest.mark.parametrize(
        "name", ["Exception", "SystemExit", "PASS_THROUGH_USER_CODE", "annotations", "MillraceError", "__loader__"]
    )
    def test_a_name_from_the_network_makes_no_other_object(self, name):
        assert type(error_of(Problem((name,), "x", "y"))) is OperationError

    def test_a_text_without_end_is_cut(self):
        assert len(problem_of(StateError("x" * 1_000_000)).message) < 21_000
