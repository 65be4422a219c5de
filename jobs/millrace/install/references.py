"""The references in a specification: variables of the environment, and secrets in files.

The document as it was written is what is kept, compared and journalled, so a secret must not stand in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from millrace.config import is_secret
from millrace.errors import ConfigurationError
from millrace.urls import has_written_password

_REFERENCE = re.compile(
    r"\$\{(?:"
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?"
    r"|env:(?P<variable>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<provider>dir|file):(?P<path>[^:}]+):(?P<key>[^}]+)"
    r")\}"
)


def interpolate(value: Any, environment: Mapping[str, str]) -> Any:
    """Returns ``value`` with the references in its texts replaced.

    ``${NAME}`` and ``${NAME:-default}`` are variables of ``environment``. The others are those of Kafka's configuration
    providers: ``${env:NAME}``; ``${dir:DIRECTORY:FILE}``, the text of a file without the line break at its end, as
    secrets are mounted into containers; ``${file:PATH:KEY}``, a line ``KEY=value`` of a file.

    Raises:
        ConfigurationError: a variable is not set and has no default, a file cannot be read, or has no such key.
    """
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: _found(match, environment), value)
    if isinstance(value, dict):
        return {key: interpolate(item, environment) for key, item in value.items()}
    if isinstance(value, list):
        return [interpolate(item, environment) for item in value]
    return value


def refuse_written_secrets(raw: Mapping[str, Any]) -> None:
    """Raises for a secret that stands in a document itself.

    Args:
        raw: the document as written.

    Raises:
        ConfigurationError: which one; what it is, is not told.
    """
    for name, value in _leaves(raw, ""):
        is_written = is_secret(name) and str(value) and not _REFERENCE.fullmatch(str(value))
        if is_written or has_written_password(str(value)):
            raise ConfigurationError(
                f"{name} {'is' if is_written else 'has'} a secret, and a specification is kept as it is written.",
                remedy="refer to it: ${NAME} for a variable of the environment, ${dir:/run/secrets:NAME} for a file",
            )


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{key}".lstrip("."))
    elif value is not None and not isinstance(value, list):
        yield name, value


def _found(match: re.Match[str], environment: Mapping[str, str]) -> str:
    if match["provider"] == "dir":
        return _text(Path(match["path"]) / match["key"]).removesuffix("\n")
    if match["provider"] == "file":
        return _line(Path(match["path"]), match["key"])
    name, default = match["name"] or match["variable"], match["default"]
    found = environment.get(name) or default
    if found is None:
        raise ConfigurationError(
            f"The environment variable {name} is not set.", remedy=f"set it, or write ${{{name}:-default}}"
        )
    return found


def read_properties(path: Path) -> dict[str, str]:
    """Returns the lines ``KEY=value`` of a file; those that begin with ``#`` are left out.

    Raises:
        ConfigurationError: it cannot be read.
    """
    lines = (line.partition("=") for line in _text(path).splitlines() if not line.lstrip().startswith("#"))
    return {name.strip(): value.strip() for name, separator, value in lines if separator}


def _line(path: Path, key: str) -> str:
    found = read_properties(path)
    if key not in found:
        raise ConfigurationError(f"{path} has no line {key}=...", remedy="correct the file or the reference")
    return found[key]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not UTF-8.", remedy="save it as UTF-8") from error
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be read: {error.strerror}.", remedy="correct its name, or the file's rights"
        ) from error
