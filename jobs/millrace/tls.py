"""The certificates that HTTP clients trust."""

from __future__ import annotations

import functools
import ssl

import httpx


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Returns how HTTP clients of this process verify servers; all of them share it.

    A client makes one of its own unless it is given one, also where the address is of plain HTTP, and reading all
    authorities' certificates takes 20 ms: more than twenty requests to a driver.
    """
    return httpx.create_ssl_context(trust_env=False)
