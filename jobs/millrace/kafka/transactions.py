"""The state of transactions at the broker, read by its ``kafka-transactions.sh`` (KIP-664).

The client library has no request for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from millrace.errors import OperationError
from millrace.kafka.broker_tools import ask_broker_tool

_TOOL = "org.apache.kafka.tools.TransactionsCommand"
_ONGOING = "Ongoing"
_MOST_DESCRIBED = 10


def list_transactions(
    bootstrap_servers: str, *, settings: Mapping[str, str] | None = None, open_for_s: float | None = None
) -> dict[str, str]:
    """Returns the state of each transactional id that the broker remembers: Ongoing, CompleteCommit, and so on.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        settings: client settings of the user, as librdkafka calls them.
        open_for_s: only those whose transaction has been open for longer, seconds.

    Raises:
        OperationError: the tool failed.
        PreflightError: there is no Java, or the broker's jars cannot be had.
    """
    # The id of a producer that was made long ago may stand in a state that is none: only Ongoing has a duration.
    longer = [] if open_for_s is None else ["--duration-filter", str(int(open_for_s * 1000))]
    rows = _ask(bootstrap_servers, settings, ["list", *longer])
    return {row["TransactionalId"]: row["TransactionState"] for row in rows}


def oldest_open_s(
    bootstrap_servers: str,
    transactional_ids: Collection[str],
    *,
    settings: Mapping[str, str] | None = None,
    least_s: float = 10.0,
) -> float:
    """Returns the age of the oldest open transaction among some ids, seconds.

    It is 0 where none is open for ``least_s`` seconds.

    A transaction that ends between the questions counts as ended. Of more than ten that are open for so long, ten are
    looked at: each is a question of its own.

    Raises:
        OperationError: the tool failed.
        PreflightError: there is no Java, or the broker's jars cannot be had.
    """
    wanted = set(transactional_ids)
    long_open = [
        name
        for name, state in list_transactions(bootstrap_servers, settings=settings, open_for_s=least_s).items()
        if name in wanted and state == _ONGOING
    ]
    ages = [0.0]
    for name in sorted(long_open)[:_MOST_DESCRIBED]:
        rows = _ask(bootstrap_servers, settings, ["describe", "--transactional-id", name])
        open_now = [row for row in rows if row["TransactionState"] == _ONGOING]
        ages += [int(row["TransactionDurationMs"]) / 1000 for row in open_now if row["TransactionDurationMs"].isdigit()]
    return max(ages)


def _ask(bootstrap_servers: str, settings: Mapping[str, str] | None, arguments: Sequence[str]) -> list[dict[str, str]]:
    text = ask_broker_tool(
        _TOOL,
        ["{connection}", *arguments],
        bootstrap_servers=bootstrap_servers,
        settings=settings,
        asking_for="the state of transactions",
    )
    return parse_table(text)


def parse_table(text: str) -> list[dict[str, str]]:
    """Returns the rows of a table that the tool prints: columns separated by tabs, padded with spaces.

    Raises:
        OperationError: it is no table.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    start = next((number for number, line in enumerate(lines) if "TransactionalId" in line), None)
    if start is None:
        raise OperationError(
            f"The broker's tool answers no table of transactions: {text.strip()[-300:]!r}.",
            remedy="see whether the jars of `millrace prepare` are of the version of the broker, or newer",
        )
    names = [name.strip() for name in lines[start].split("\t")]
    return [dict(zip(names, map(str.strip, line.split("\t")), strict=False)) for line in lines[start + 1 :]]
