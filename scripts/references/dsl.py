"""The public names of the DSL, from their signatures and docstrings."""

from __future__ import annotations

import ast
import enum
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import FunctionType
from typing import Any, ForwardRef, get_overloads

from millrace import dsl, serdes
from millrace.dsl import aggregators
from millrace.topology import state_stores
from scripts.references.markdown import GENERATED, from_docstring

_INTRODUCTION = f"""\
# The names of the DSL

Every public class and method. All of them come from one import, `import millrace as ms` or `from millrace import
StreamsBuilder`; the aggregators are functions of `millrace.agg`. [The DSL](dsl.md) says what they are for. Where a
type is `Any`, the text says what may be given.

{GENERATED}

"""
GROUPS: Mapping[str, Sequence[str]] = {
    "Streams and tables": (
        "StreamsBuilder",
        "StreamsConfig",
        "KStream",
        "BranchedKStream",
        "KGroupedStream",
        "TimeWindowedKStream",
        "SessionWindowedKStream",
        "CogroupedKStream",
        "TimeWindowedCogroupedKStream",
        "SessionWindowedCogroupedKStream",
        "KTable",
        "KGroupedTable",
        "GlobalKTable",
    ),
    "Options": (
        "Named",
        "Consumed",
        "AutoOffsetReset",
        "Produced",
        "Printed",
        "RecordContext",
        "Repartitioned",
        "Branched",
        "Grouped",
        "Materialized",
        "StoreBackend",
        "RocksDBOptions",
        "Compression",
        "Joined",
        "StreamJoined",
        "TableJoined",
        "Suppressed",
        "BufferConfig",
        "EagerBufferConfig",
        "StrictBufferConfig",
        "EmitStrategy",
    ),
    "Windows": ("TimeWindows", "SlidingWindows", "SessionWindows", "UnlimitedWindows", "JoinWindows"),
    "Expressions": ("value_field", "record_key", "record_value", "record_timestamp"),
    "Event time": (
        "field_timestamp",
        "ConsumerRecord",
        "FailOnInvalidTimestamp",
        "LogAndSkipOnInvalidTimestamp",
        "UsePartitionTimeOnInvalidTimestamp",
        "ExtractRecordMetadataTimestamp",
        "WallclockTimestampExtractor",
    ),
    "Processors": (
        "Topology",
        "Processor",
        "FixedKeyProcessor",
        "ValueTransformerWithKey",
        "ConnectedStoreProvider",
        "ProcessingContext",
        "ProcessorContext",
        "FixedKeyProcessorContext",
        "Record",
        "FixedKeyRecord",
        "RecordMetadata",
        "PunctuationType",
        "Cancellable",
    ),
    "Stores": (
        "Stores",
        "StoreSupplier",
        "VersionedStoreSupplier",
        "StoreBuilder",
        "ReadOnlyKeyValueStore",
        "KeyValueStore",
        "ReadOnlyWindowStore",
        "WindowStore",
        "ReadOnlySessionStore",
        "SessionStore",
        "VersionedKeyValueStore",
        "VersionedRecord",
        "VALID_TO_UNDEFINED",
        "NOT_PUT",
        "ValueAndTimestamp",
        "StateStore",
    ),
    "Aggregators": tuple(aggregators.__all__),
    "Serdes": ("Serde", *(name for name in serdes.__all__ if name not in {"Serde", "NAMED_SERDES"})),
}
_SECTIONS = {"Args:": "Arguments:", "Returns:": "Returns:", "Raises:": "Raises:"}
_STARS: Mapping[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_LINE = 100


def page() -> str:
    """The reference page, Markdown."""
    parts = []
    for title, names in GROUPS.items():
        parts.append(f"## {title}")
        for name in names:
            parts += _named(name)
    return _INTRODUCTION + "\n\n".join(parts) + "\n"


def _named(name: str) -> list[str]:
    found = next(getattr(module, name) for module in (dsl, aggregators, serdes) if hasattr(module, name))
    if isinstance(found, int):
        return [f"### {name}", f"```python\n{name} = {found}\n```", _constant_text(name)]
    if not isinstance(found, type):
        return [f"### {name}", _code(name, found), *_text(found)]
    parts = [f"### {name}", *_text(found)]
    if "Args:" in (found.__doc__ or ""):
        parts.insert(1, _code(name, found))
    if issubclass(found, enum.Enum) and not _members(found):
        parts.append("One of " + ", ".join(f"`{each.name}`" for each in found) + ".")
    for member, value in _members(found).items():
        parts.append(f"#### {name}.{member}")
        if not isinstance(value, property):
            parts.append(_code(member, getattr(found, member)))
        parts += _text(value)
    return parts


def _members(kind: type) -> dict[str, Any]:
    """Public methods and properties. Those of ``Serde`` every serde has: they are told once."""
    told = {*getattr(kind, "__dataclass_fields__", ())}
    if kind.__module__.startswith("millrace.serdes.") and kind is not serdes.Serde:
        told |= {*vars(serdes.Serde)}
    return {
        name: member
        for name, member in vars(kind).items()
        if isinstance(member, FunctionType | classmethod | staticmethod | property)
        and not name.startswith("_")
        and name not in told
    }


def _text(found: Any) -> list[str]:
    """The docstring: its paragraphs, then the arguments and errors as lists."""
    text = inspect.cleandoc(found.__doc__)
    if elsewhere := re.match(r"See :class:`(\w+)`", text):
        # A factory of an aggregator: what it makes has the description.
        text = inspect.cleandoc(vars(sys.modules[found.__module__])[elsewhere[1]].__doc__)
    return list(_parts(from_docstring(text)))


def _parts(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        title, _, rest = paragraph.partition("\n")
        if title in _SECTIONS:
            # An entry may go over several lines, each deeper than its first.
            entries = re.split(r"\n(?=\S)", inspect.cleandoc(rest))
            named = (re.sub(r"^([\w*, ]+):", r"`\1`:", re.sub(r"\s+", " ", entry)) for entry in entries)
            yield f"{_SECTIONS[title]}\n\n" + "\n".join(f"- {entry}" for entry in named)
        elif paragraph.startswith(" "):
            yield f"```python\n{inspect.cleandoc(paragraph)}\n```"
        else:
            yield re.sub(r"::$", ":", paragraph)


def _constant_text(name: str) -> str:
    """The text that stands behind a constant."""
    body = ast.parse(inspect.getsource(state_stores)).body
    for assignment, text in pairwise(body):
        match assignment, text:
            case ast.Assign(targets=[ast.Name(id=found)]), ast.Expr(value=ast.Constant(value=str(told))) if (
                found == name
            ):
                return from_docstring(told)
    raise LookupError(f"Nothing is said about {name}.")


def _code(name: str, found: Callable[..., Any]) -> str:
    """A signature, or those of its overloads."""
    overloads = () if isinstance(found, type) else get_overloads(found)
    lines = "\n".join(_signature(name, each) for each in overloads or (found,))
    return f"```python\n{lines}\n```"


def _signature(name: str, found: Callable[..., Any]) -> str:
    """One parameter a line where it is long."""
    signature = inspect.signature(found)
    parameters = [_parameter(each) for each in signature.parameters.values() if each.name != "self"]
    kinds = [each.kind for each in signature.parameters.values() if each.name != "self"]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    made = "" if isinstance(found, type) else f" -> {_annotation(signature.return_annotation)}"
    line = f"{name}({', '.join(parameters)}){made}"
    if len(line) > _LINE:
        inside = "".join(f"    {each},\n" for each in parameters)
        line = f"{name}(\n{inside}){made}"
    return line


def _parameter(parameter: inspect.Parameter) -> str:
    text = f"{_STARS.get(parameter.kind, '')}{parameter.name}"
    if parameter.annotation is not inspect.Parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    if parameter.default is not inspect.Parameter.empty:
        text += f" = {_default(parameter.default)}"
    return text


def _annotation(annotation: Any) -> str:
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    # How a type variable varies says nothing about what may be given.
    return re.sub(r"\b([A-Z]\w*?)_(?:contra|co)\b", r"\1", text)


def _default(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    return getattr(value, "__name__", None) or repr(value)
