"""Addresses with a login in them, ``https://user:password@host/path``. Pure."""

from __future__ import annotations

import re
from urllib.parse import unquote

_LOGIN = re.compile(r"(?<=://)(?P<user>[^/@:,]*)(:(?P<password>[^/@,]*))?@")
_REFERENCE = "${"


def without_login(url: str) -> str:
    """Returns an address, or several with commas between them, without its password: for logs and errors."""
    return _LOGIN.sub("", url)


def login_of(url: str) -> tuple[str, str] | None:
    """Returns user and password of an address, percent-encoding resolved; ``None`` where there is no login in it."""
    found = _LOGIN.search(url)
    return None if found is None else (unquote(found["user"]), unquote(found["password"] or ""))


def has_written_password(text: str) -> bool:
    """Returns whether there is an address with a password in a text that is no reference, as ``${NAME}`` is."""
    return any(found["password"] and _REFERENCE not in found["password"] for found in _LOGIN.finditer(text))
