from __future__ import annotations

from millrace.urls import login_of, without_login


def test_a_login_is_taken_out_of_every_address() -> None:
    assert without_login("https://me:p%40ss@a:1/x,http://you@b:2,http://c:3/d@e") == (
        "https://a:1/x,http://b:2,http://c:3/d@e"
    )
    assert login_of("https://me:p%40ss@a:1/x") == ("me", "p@ss")
    assert login_of("http://c:3/d@e") is None
