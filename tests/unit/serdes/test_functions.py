from __future__ import annotations

from typing import Any

import pytest
from pyspark import cloudpickle

from millrace.errors import ConfigurationError, SerializationError
from millrace.serdes import Serde, serde_from

CELSIUS = serde_from(lambda value: b"%.1f" % value, float)


def test_a_serde_of_two_functions_calls_them() -> None:
    assert isinstance(CELSIUS, Serde)
    assert CELSIUS.arrow_type is None
    assert CELSIUS.serialize(21.25) == b"21.2"
    assert CELSIUS.deserialize(b"21.5") == 21.5


def test_it_survives_cloudpickle_with_its_closures() -> None:
    factor = 3
    serde = serde_from(lambda value: str(value * factor).encode(), lambda data: int(data) // factor)
    copy = cloudpickle.loads(cloudpickle.dumps(serde))
    assert copy.serialize(5) == b"15"
    assert copy.deserialize(b"15") == 5


def test_equal_functions_make_equal_serdes() -> None:
    assert serde_from(str.encode, bytes.decode) == serde_from(str.encode, bytes.decode)
    assert hash(serde_from(str.encode, bytes.decode)) == hash(serde_from(str.encode, bytes.decode))


def test_what_a_function_raises_becomes_a_serialization_error_with_its_name() -> None:
    def fail(value: Any) -> bytes:
        raise KeyError("x")

    serde = serde_from(fail, fail)
    with pytest.raises(SerializationError, match=r"serializer .*fail failed at 1: KeyError: 'x'.*Remedy"):
        serde.serialize(1)
    with pytest.raises(SerializationError, match=r"deserializer .*fail failed at 3 bytes: KeyError.*Remedy"):
        serde.deserialize(b"abc")


def test_a_serialization_error_of_a_function_passes_as_it_is() -> None:
    own = SerializationError("own words", remedy="own remedy")

    def fail(value: Any) -> bytes:
        raise own

    with pytest.raises(SerializationError) as caught:
        serde_from(fail, fail).serialize(1)
    assert caught.value is own


@pytest.mark.parametrize("returned", [None, "text", 5])
def test_a_serializer_that_returns_no_bytes_is_an_error(returned: Any) -> None:
    with pytest.raises(SerializationError, match="not bytes"):
        serde_from(lambda value: returned, float).serialize(1)


def test_a_bytearray_is_taken_as_bytes() -> None:
    returned: Any = bytearray(b"x")
    assert serde_from(lambda value: returned, float).serialize(1) == b"x"


def test_what_is_not_callable_is_refused_when_the_serde_is_made() -> None:
    with pytest.raises(ConfigurationError, match="deserializer is 5"):
        serde_from(str.encode, 5)  # type: ignore[arg-type]
