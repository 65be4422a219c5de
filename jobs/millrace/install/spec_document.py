"""Reading one file of YAML that people write: whatever is wrong with it becomes one error that names the file."""

from __future__ import annotations

import math
import stat
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import yaml

from millrace.errors import ConfigurationError

MOST_BYTES = 1 << 20
"""Largest file that is read: a specification has some kilobytes."""
MOST_VALUES = 20_000
"""Most keys and values of a document once its aliases are written out."""
DEEPEST = 50
"""Most mappings and lists within each other."""

_BYTE_ORDER_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
_KINDS = {
    stat.S_ISDIR: "a directory",
    stat.S_ISFIFO: "a named pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}
_SAVE_AS_UTF_8 = "save it as UTF-8"


def read_document(path: Path) -> dict[str, Any]:
    """Returns the mapping in a YAML file.

    It is UTF-8, of at most :data:`MOST_BYTES`, and holds one document; its keys are text, none is there twice, and its
    values are those of JSON. Aliases may repeat values, up to :data:`MOST_VALUES` in all.

    Raises:
        ConfigurationError: it is not; the message names the file and, where there is one, the line.
    """
    text = _text(path)
    try:
        _limit_depth(path, text)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                raise ConfigurationError(f"{path} is empty.", remedy="begin with `name:` and `module:`")
            _limit_values(path, node)
            document = loader.construct_document(node)
        finally:
            loader.dispose()
    except _UnwantedValueError as error:
        raise ConfigurationError(f"{path} is not valid: {error}.", remedy="correct the line") from error
    except yaml.YAMLError as error:
        raise ConfigurationError(
            f"{path} is not valid YAML: {_in_one_line(error)}.", remedy="correct the file"
        ) from error
    if not isinstance(document, dict):
        raise ConfigurationError(f"{path} holds no mapping.", remedy="begin with `name:` and `module:`")
    return document


def _text(path: Path) -> str:
    try:
        # Not opened before it is known what it is: opening a named pipe would wait for a writer.
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = next((name for is_kind, name in _KINDS.items() if is_kind(mode)), "no file")
            raise ConfigurationError(f"{path} is {kind}, not a file.", remedy="move it away, or write the file there")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError as error:
        if path.is_symlink():
            raise ConfigurationError(
                f"{path} is a link to {path.readlink()}, which is not there.", remedy="correct or remove the link"
            ) from error
        known = ", ".join(sorted(known_names(path.parent))) or "none"
        raise ConfigurationError(
            f"There is no specification {path}.", remedy=f"write it, or take one of those that are there: {known}"
        ) from error
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be read: {error.strerror or error}.", remedy="correct the file's permissions, or the link"
        ) from error
    if len(content) > MOST_BYTES:
        raise ConfigurationError(
            f"{path} has more than {MOST_BYTES:,} bytes.", remedy="write the specification and nothing else there"
        )
    return _decoded(path, content)


def _decoded(path: Path, content: bytes) -> str:
    if (encoding := _BYTE_ORDER_MARKS.get(content[:2])) is not None:
        raise ConfigurationError(f"{path} is {encoding}, not UTF-8.", remedy=_SAVE_AS_UTF_8)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(
            f"{path} is not UTF-8: byte 0x{content[error.start]:02x} in line {line}.", remedy=_SAVE_AS_UTF_8
        ) from error
    if (at := text.find("\0")) >= 0:
        line = text.count("\n", 0, at) + 1
        raise ConfigurationError(f"{path} is no text: it has a zero byte in line {line}.", remedy=_SAVE_AS_UTF_8)
    return text


def known_names(directory: Path) -> Iterator[str]:
    """Yields the names of the specifications in a directory, from their files; none where it cannot be listed."""
    try:
        yield from (path.stem for path in directory.iterdir() if path.suffix == ".yaml" and path.name[0] != ".")
    except OSError:
        return


def _limit_depth(path: Path, text: str) -> None:
    # By events, which need no recursion: the nodes themselves are composed by functions that call themselves.
    depth = documents = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise ConfigurationError(
                    f"{path} holds several documents; the second begins in line {_line(event)}.",
                    remedy="write one file for each application",
                )
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise ConfigurationError(
                    f"{path} has more than {DEEPEST} mappings and lists within each other in line {_line(event)}.",
                    remedy="correct the file",
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _limit_values(path: Path, root: yaml.Node) -> None:
    """Refuse a document of few lines whose aliases stand for more than anything here should hold."""
    sizes: dict[int, int] = {}
    under_way: set[int] = set()

    def size(node: yaml.Node) -> int:
        if id(node) in sizes:
            return sizes[id(node)]
        if id(node) in under_way:
            raise ConfigurationError(
                f"{path} has an alias within what it stands for in line {_line(node)}.",
                remedy="write it out",
            )
        under_way.add(id(node))
        total = 1
        if isinstance(node, yaml.MappingNode):
            total += sum(size(key) + size(value) for key, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            total += sum(size(item) for item in node.value)
        under_way.discard(id(node))
        sizes[id(node)] = total
        return total

    if (values := size(root)) > MOST_VALUES:
        raise ConfigurationError(
            f"{path} stands for {values:,} keys and values, and {MOST_VALUES:,} are the most.",
            remedy="write the specification without so many aliases",
        )


def _line(node: yaml.Node | yaml.Event) -> int:
    assert node.start_mark is not None, "nodes of a text have a place in it"
    return node.start_mark.line + 1


_SAFE_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
"""Supervision reads specifications every few seconds, and the one of libyaml takes a tenth of the time."""


class _UnwantedValueError(Exception):
    """A value that YAML knows and a specification does not."""

    def __init__(self, node: yaml.Node, problem: str) -> None:
        super().__init__(f"line {_line(node)}: {problem}")


class _Loader(_SAFE_LOADER):  # type: ignore[misc, valid-type]
    """YAML's values that JSON has as well; keys are text, and there once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        if isinstance(node, yaml.MappingNode):
            self._check_keys(node)
        found: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        return found

    def _check_keys(self, node: yaml.MappingNode) -> None:
        # Before keys of `<<` are mixed in, which those of the mapping itself may replace.
        seen: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                written = key.value if isinstance(key, yaml.ScalarNode) else "that is a list or a mapping"
                raise _UnwantedValueError(key, f"the key {written} is not text; write it in quotes")
            line = _line(key)
            if key.value in seen:
                raise _UnwantedValueError(key, f"the key {key.value!r} is there twice, first in line {seen[key.value]}")
            seen[key.value] = line


def _whole_number(loader: _Loader, node: yaml.ScalarNode) -> int:
    try:
        number = int(loader.construct_yaml_int(node))
    except ValueError as error:
        raise _UnwantedValueError(node, f"{node.value[:30]} is no number") from error
    if not -(2**63) <= number < 2**64:
        raise _UnwantedValueError(node, f"{node.value[:30]} does not fit into 64 bits")
    return number


def _real_number(loader: _Loader, node: yaml.ScalarNode) -> float:
    try:
        number = float(loader.construct_yaml_float(node))
    except ValueError as error:
        raise _UnwantedValueError(node, f"{node.value[:30]} is no number") from error
    if not math.isfinite(number):
        raise _UnwantedValueError(node, f"{node.value[:30]} is no finite number")
    return number


def _truth(loader: _Loader, node: yaml.ScalarNode) -> bool:
    try:
        return bool(loader.construct_yaml_bool(node))
    except KeyError as error:
        raise _UnwantedValueError(node, f"{node.value[:30]} is neither true nor false") from error


def _written(loader: _Loader, node: yaml.ScalarNode) -> str:
    text = str(loader.construct_yaml_str(node))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _UnwantedValueError(node, f"{text[error.start]!a} is half of a character") from error
    return text


def _refused(loader: _Loader, node: yaml.Node) -> None:
    del loader
    kind = node.tag.rpartition(":")[2]
    written = f"{node.value[:30]} is read" if isinstance(node, yaml.ScalarNode) else "this is read"
    raise _UnwantedValueError(node, f"{written} as `{kind}`, which no key of a specification takes; put text in quotes")


_Loader.add_constructor("tag:yaml.org,2002:bool", _truth)
_Loader.add_constructor("tag:yaml.org,2002:str", _written)
_Loader.add_constructor("tag:yaml.org,2002:int", _whole_number)
_Loader.add_constructor("tag:yaml.org,2002:float", _real_number)
for _kind in ("timestamp", "binary", "set", "omap", "pairs"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _refused)


def _in_one_line(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError):
        return " ".join(str(error).replace('in "<unicode string>", ', "at ").split()).rstrip(".")
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}: " if mark is not None else ""
    return where + ", ".join(filter(None, (error.context, error.problem)))
