"""The serdes that settings name."""

from __future__ import annotations

import pytest

from millrace.errors import ConfigurationError
from millrace.serdes import BytesSerde, JsonSerde, LongSerde, Serde, StringSerde
from millrace.serdes.configured import check_serde_name, serde_named

OWN = JsonSerde()
NO_SERDE = 7


@pytest.mark.parametrize(
    ("name", "serde"),
    [
        ("long", LongSerde()),
        ("Serdes$StringSerde", StringSerde()),
        ("Serdes.String", StringSerde()),
        ("org.apache.kafka.common.serialization.Serdes$ByteArraySerde", BytesSerde()),
        ("millrace.serdes:LongSerde", LongSerde()),
    ],
)
def test_a_name_a_class_of_kafka_s_and_one_s_own_class_give_their_serde(name: str, serde: Serde) -> None:
    check_serde_name(name)
    assert serde_named(name) == serde


def test_one_s_own_object_is_given_as_it_is() -> None:
    assert serde_named(f"{__name__}:OWN") is OWN


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("strng", "the nearest known one is 'string'"),
        ("Serdes$VoidSerde", "There is no serde"),
        ("no_such_module:serde", "cannot be made: ModuleNotFoundError"),
        ("millrace.serdes:no_such_serde", "cannot be made: AttributeError"),
        (f"{__name__}:NO_SERDE", "cannot be made: TypeError"),
        ("builtins:dict", r"What 'builtins:dict' gives is \{\} \(dict\), and a serde is expected"),
    ],
)
def test_what_gives_no_serde_is_refused_with_the_reason(name: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        serde_named(name)


def test_the_check_of_a_name_imports_nothing() -> None:
    check_serde_name("no_such_module:serde")
    with pytest.raises(ConfigurationError, match="the nearest known one is 'string'"):
        check_serde_name("strng")
