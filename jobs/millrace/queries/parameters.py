"""The parameters of a request, parsed from text: keys, numbers, flags, and the page at which a scan continues."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from millrace.queries.catalog import CatalogEntry
from millrace.queries.refusals import QueryRefusedError, Reason
from millrace.queries.requests import MAX_LIMIT, Operation, StoreQuery
from millrace.queries.values import key_bytes, prefix_bytes

PARAMETERS = frozenset(
    {"key", "from", "to", "prefix", "from_time", "to_time", "as_of", "limit", "page", "partition", "stale"}
)
_TRUE = {"true": True, "1": True, "false": False, "0": False}
_LONGEST = 2**63 - 1


@dataclass(frozen=True)
class Page:
    """The position at which a scan continues.

    Args:
        partition: the partition.
        after: the key of it after which the scan continues; ``None`` is its beginning.
    """

    partition: int
    after: bytes | None = None

    def encode(self) -> str:
        """Returns the position as text, for the parameter ``page``."""
        after = None if self.after is None else base64.b64encode(self.after).decode()
        return base64.urlsafe_b64encode(orjson.dumps([self.partition, after])).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Page:
        """Parses the output of :meth:`encode`.

        Raises:
            QueryRefusedError: it is no page.
        """
        try:
            partition, after = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            return cls(int(partition), None if after is None else base64.b64decode(after, validate=True))
        except (ValueError, TypeError, binascii.Error) as error:
            raise bad_request(f"page={text!r} is no page of an answer", "give `next` of the last answer") from error


class Parameters:
    """The parameters of a request.

    Args:
        given: names and texts, in the order of the request; only ``key`` may come more than once.

    Raises:
        QueryRefusedError: there is no parameter of that name.
    """

    def __init__(self, given: Sequence[tuple[str, str]]) -> None:
        self._given = dict(given)
        self._all = given
        unknown = self._given.keys() - PARAMETERS
        if unknown:
            raise bad_request(f"There is no parameter {min(unknown)!r}", f"there are {', '.join(sorted(PARAMETERS))}")

    def __contains__(self, name: object) -> bool:
        return name in self._given

    def key(self, entry: CatalogEntry, operation: Operation) -> bytes:
        """Returns the requested key."""
        keys = self.keys(entry, operation)
        if len(keys) > 1:
            raise bad_request(f"The operation {operation} asks for one key, not {len(keys)}", "use get_many")
        return keys[0]

    def keys(self, entry: CatalogEntry, operation: Operation) -> list[bytes]:
        """Returns the requested keys, in their order."""
        keys = [key_bytes(text, entry.spec.key_serde) for name, text in self._all if name == "key"]
        if not keys:
            raise bad_request(f"The operation {operation} asks for one key", "give key=...")
        if len(keys) > MAX_LIMIT:
            raise bad_request(f"{len(keys)} keys are too many", f"ask for at most {MAX_LIMIT} at once")
        return keys

    def page(self) -> Page | None:
        """Returns the position at which the scan continues."""
        return Page.decode(self._given["page"]) if "page" in self._given else None

    def number(self, name: str, default: int) -> int:
        """Returns a whole number; ``default`` if it is missing."""
        if name not in self._given:
            return default
        try:
            return int(self._given[name])
        except ValueError:
            raise bad_request(
                f"{name}={self._given[name]!r} is no whole number", "times are milliseconds since the epoch"
            ) from None

    def as_of(self) -> int | None:
        """Returns the time of the requested versions; ``None`` for the newest ones."""
        return self.number("as_of", 0) if "as_of" in self._given else None

    def flag(self, name: str) -> bool:
        """Returns a flag; ``False`` if it is missing."""
        given = self._given.get(name, "false").lower()
        if given not in _TRUE:
            raise bad_request(f"{name}={given!r} is neither true nor false", f"give {name}=true")
        return _TRUE[given]

    def query(self, entry: CatalogEntry, operation: Operation, key: bytes | None, page: Page | None) -> StoreQuery:
        """Returns the query to one task's store."""
        given, serde = self._given, entry.spec.key_serde
        query = StoreQuery(
            store=entry.spec.name,
            operation=operation,
            key=key,
            from_key=key_bytes(given["from"], serde) if "from" in given else None,
            to_key=key_bytes(given["to"], serde) if "to" in given else None,
            prefix=prefix_bytes(given.get("prefix", ""), serde) if operation is Operation.PREFIX else b"",
            from_time=max(self.number("from_time", 0), 0),
            to_time=self.number("to_time", _LONGEST),
            limit=self.number("limit", 100),
            after=page.after if page is not None else None,
        )
        if not 1 <= query.limit <= MAX_LIMIT:
            raise bad_request(
                f"limit={query.limit} is no number of entries", f"ask for 1 to {MAX_LIMIT} and go on with `next`"
            )
        return query


def bad_request(message: str, remedy: str) -> QueryRefusedError:
    """Returns the refusal of an invalid request."""
    return QueryRefusedError(Reason.BAD_REQUEST, f"{message}.", remedy=remedy)
