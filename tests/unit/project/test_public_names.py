"""Every public method and option of the DSL and of the test driver is used by a test."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from millrace import dsl, testing

TESTS = Path(__file__).parents[2]
CALLED_BY_THE_ENGINE = {
    "StoreSupplier.apply_to",
    "VersionedStoreSupplier.spec",
    "RocksDBOptions.over",
    "ValueTransformerWithKey.transform",
    "WallclockTimestampExtractor.clock",
    "FailOnInvalidTimestamp.on_invalid_timestamp",
    "LogAndSkipOnInvalidTimestamp.on_invalid_timestamp",
    "UsePartitionTimeOnInvalidTimestamp.on_invalid_timestamp",
    "ExtractRecordMetadataTimestamp.on_invalid_timestamp",
    "WallclockTimestampExtractor.on_invalid_timestamp",
    "TestInputTopic.raw",
}
"""What a topology defines or a driver's topic calls; users do not."""


def _methods() -> Iterator[tuple[str, str, inspect.Signature]]:
    """Class, name and signature of every public method."""
    for module in (dsl, testing):
        for name in module.__all__:
            kind = getattr(module, name)
            if not inspect.isclass(kind) or issubclass(kind, Enum):
                continue
            for method, function in inspect.getmembers(kind, inspect.isfunction):
                if not method.startswith("_") and function.__module__.startswith("millrace."):
                    yield name, method, inspect.signature(function)


def test_each_method_is_called_and_each_option_given_by_a_test() -> None:
    text = "\n".join(path.read_text() for path in TESTS.rglob("*.py") if path != Path(__file__))
    called = set(re.findall(r"\.(\w+)\(", text))
    # Also as a value: `make = Stores.in_memory_window_store`, `getattr(stream, "left_join")`.
    called |= set(re.findall(r"Stores\.(\w+)", text)) | set(re.findall(r"\"(\w+)\"", text))
    given = set(re.findall(r"\b(\w+)=", text))
    missing = []
    for kind, method, signature in _methods():
        if f"{kind}.{method}" in CALLED_BY_THE_ENGINE:
            continue
        if method not in called:
            missing.append(f"{kind}.{method}")
        missing += [
            f"{kind}.{method}({name}=...)"
            for name, parameter in signature.parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY and name not in given
        ]
    assert missing == []
