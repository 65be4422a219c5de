from __future__ import annotations

from millrace.driver.reasons import reason_of
from millrace.errors import BrokerUnavailableError

_JAVA = """Job aborted due to stage failure: Task 0 in stage 5.0 failed 4 times, most recent failure: Lost task 0.3
org.apache.spark.SparkException: Job aborted due to stage failure.
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:3000)
Caused by: org.apache.spark.sql.kafka010.KafkaIllegalStateException: Record at topic in is odd.
\tat org.apache.spark.sql.kafka010.KafkaRecordToRowConverter.convert(KafkaRecordToRowConverter.scala:60)
"""
_PYTHON = """An exception was thrown from the Python worker. Please see the stack trace below.
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/somewhere/worker.py", line 1, in main
    process()
millrace.errors.TransactionAbortedError: The transaction of producer app-0_0 was aborted. Remedy: none.

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:572)
"""


def test_a_trace_of_java_is_reduced_to_its_first_cause() -> None:
    """Case E18."""
    assert reason_of(RuntimeError(_JAVA)) == "KafkaIllegalStateException: Record at topic in is odd."


def test_a_trace_of_python_within_one_of_java_is_reduced_to_the_error_itself() -> None:
    """Case E16."""
    found = reason_of(RuntimeError(_PYTHON))
    assert found == "TransactionAbortedError: The transaction of producer app-0_0 was aborted. Remedy: none."


def test_other_errors_are_one_line_as_well() -> None:
    assert reason_of(ValueError("first\nsecond")) == "ValueError: first"
    assert reason_of(ValueError()) == "ValueError: it says nothing"
    assert len(reason_of(ValueError("x" * 5_000))) <= 500
    ours = BrokerUnavailableError("It is away.", remedy="wait")
    assert reason_of(ours) == "BrokerUnavailableError: It is away. Remedy: wait"
