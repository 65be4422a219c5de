"""The operators of a foreign-key join of two tables (KIP-213): five nodes, joined by two internal topics.

``SubscriptionSend`` turns a change of the primary table into subscriptions to foreign keys. ``SubscriptionReceive``
keeps them on the foreign side and ``SubscriptionJoin`` responds to them; ``ForeignTableJoin`` responds to all
subscriptions of a foreign key when its row changes. ``ResponseJoin``, on the primary side again, joins the responses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow.compute as pc

from millrace.serdes import Serde
from millrace.serdes.subscriptions import Response
from millrace.topology.partitioners import Partitioner, only_partition

ForeignKeyExtractor: TypeAlias = Callable[[Any, Any], Any] | pc.Expression
"""``(key, value) -> foreign key`` of a primary row, or an expression; ``None`` where it has none."""


@dataclass(frozen=True)
class SubscriptionSend:
    """Subscribes the rows of a table to foreign keys, as the instructions of each change say.

    Args:
        extractor: the foreign key of a row.
        foreign_table: name of the node that makes the foreign table.
        left_join: a row without a foreign key, or without a foreign row, has a result too.
        foreign_key_serde: decides whether a foreign key changed; ``None`` takes the configuration's default.
        value_serde: of the rows' values, for their hashes; the same.
    """

    extractor: ForeignKeyExtractor
    foreign_table: str
    left_join: bool
    foreign_key_serde: Serde | None = None
    value_serde: Serde | None = None


@dataclass(frozen=True)
class SubscriptionReceive:
    """Keeps subscriptions in ``store``; runs together with the ``ForeignTableJoin`` of the same ``joint``.

    Args:
        joint: common name of both.
        store: name of the store.
        foreign_key_serde: ``None`` takes the configuration's default; the same for ``primary_key_serde``.
    """

    joint: str
    store: str
    foreign_key_serde: Serde | None = None
    primary_key_serde: Serde | None = None


@dataclass(frozen=True)
class ForeignTableJoin:
    """Sends a changed foreign row to all its subscribers in ``store``. The fields are those of the other half."""

    joint: str
    store: str


@dataclass(frozen=True)
class SubscriptionJoin:
    """Responds to subscriptions with the rows of the foreign table, which the node ``table`` makes."""

    table: str


@dataclass(frozen=True)
class SubscribeAgain:
    """The way by which an inner join subscribes a row once more.

    A response without a foreign row may have been the last word on a result that must go. If the row has changed
    before it came, that word is lost in Kafka Streams: the later subscription of an unchanged foreign key, or of a row
    that is new, is not answered where there is no foreign row, and the old result stays. Here a row that has gone or
    has no foreign key now has its result deleted, and another one asks again, for an answer in any case. Nothing of
    this shows where responses come before the next change, or where ``foreign.key.join.settles`` is off.

    Args:
        extractor: as in ``SubscriptionSend``.
        sink: name of the sink of the subscriptions.
    """

    extractor: ForeignKeyExtractor
    sink: str


@dataclass(frozen=True)
class ResponseJoin:
    """Joins responses with the rows that they are for, unless those have changed since.

    Args:
        table: name of the node that makes the primary table.
        joiner: ``(value, foreign value) -> value``, or a ``KeyedJoiner``.
        left_join: as in ``SubscriptionSend``; the same for ``value_serde``.
        key_serde: distinguishes rows; ``None`` takes the configuration's default.
        result: name of the node that takes the results.
        again: how a row is subscribed once more: by an inner join where its last response came too late (all
            subscriptions of a left join are answered), by both where a computed row was subscribed by another serde.
    """

    table: str
    joiner: Callable[..., Any]
    left_join: bool
    result: str
    again: SubscribeAgain
    key_serde: Serde | None = None
    value_serde: Serde | None = None


@dataclass(frozen=True)
class PartitionedByKey:
    """A user's partitioner of an internal topic of the join: it gets the keys of a table, and no values."""

    partitioner: Partitioner

    def __call__(self, topic: str, key: Any, _value: Any, partitions: int, /) -> Any:
        """Returns the partition of a record.

        Raises:
            InvalidPartitionError: several were chosen, or none.
        """
        return only_partition(self.partitioner(topic, key, None, partitions))


@dataclass(frozen=True)
class PartitionedAsPrimary:
    """Responses go where the primary row is; those to subscriptions of version 0 by the hash of their key."""

    def __call__(self, _topic: str, _key: Any, response: Response, _partitions: int, /) -> int | None:
        """Returns the partition of a response."""
        return response.primary_partition
