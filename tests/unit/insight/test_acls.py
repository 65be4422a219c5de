from __future__ import annotations

import re
from typing import Any

import pytest

from millrace.dsl import StreamsBuilder
from millrace.errors import ConfigurationError
from millrace.insight.acls import Acl, Permission, Purpose, Resource, needed_acls
from millrace.install.spec import ApplicationSpec

USER = {"sasl.username": "fraud"}


def spec(module: str = "apps.fraud_detection:build", **config: Any) -> ApplicationSpec:
    return ApplicationSpec(
        name="fraud",
        module=module,
        config={"bootstrap.servers": "b:9092", **config},
        topics=[{"name": "payments", "partitions": 4}],  # type: ignore[list-item]
    )


def choosing(builder: StreamsBuilder) -> None:
    builder.stream("in").to(lambda key, value, context: f"out-{key}")


def matching(builder: StreamsBuilder) -> None:
    builder.stream(re.compile(r"sensor-[a-z]+")).merge(builder.stream(re.compile(".*-log"))).to("out")


def find(acls: tuple[Acl, ...], resource: Resource, name: str) -> list[Acl]:
    return [acl for acl in acls if (acl.resource, acl.name) == (resource, name)]


def test_what_running_needs_follows_from_the_topology() -> None:
    needed = needed_acls(spec(**USER), purpose=Purpose.RUN)
    assert needed.principal == "User:fraud"
    assert {(acl.resource.value, acl.name, acl.prefixed): set(acl.operations) for acl in needed.acls} == {
        ("topic", "payments", False): {Permission.READ, Permission.DESCRIBE_CONFIGS},
        ("topic", "fraud-alerts", False): {Permission.WRITE, Permission.DESCRIBE_CONFIGS},
        ("topic", "fraud-", True): {
            Permission.CREATE,
            Permission.READ,
            Permission.WRITE,
            Permission.DESCRIBE_CONFIGS,
        },
        ("topic", "_millrace-status", False): {Permission.CREATE, Permission.READ, Permission.WRITE},
        ("group", "fraud", False): {Permission.READ},
        ("group", "millrace-", True): {Permission.DESCRIBE},
        ("transactional-id", "fraud-", True): {Permission.WRITE},
        ("cluster", "kafka-cluster", False): {Permission.DESCRIBE_CONFIGS},
    }
    assert needed.notes == ()


def test_topics_that_match_a_pattern_are_those_with_the_prefix_that_all_of_them_have() -> None:
    acls = needed_acls(spec("tests.unit.insight.test_acls:matching", **USER), purpose=Purpose.RUN).acls
    (sensors,) = find(acls, Resource.TOPIC, "sensor-")
    (everything,) = find(acls, Resource.TOPIC, "*")
    assert (sensors.prefixed, everything.prefixed) == (True, False)
    assert sensors.operations == everything.operations == (Permission.READ, Permission.DESCRIBE_CONFIGS)
    assert sensors.reason == "read what matches sensor-[a-z]+"


def test_operations_need_what_is_declared_created_and_dead_letters_what_they_touch() -> None:
    acls = needed_acls(spec(**USER, **{"errors.dead.letter.queue.topic.name": "letters"})).acls
    assert [acl.operations for acl in find(acls, Resource.TOPIC, "payments")] == [
        (Permission.READ, Permission.DESCRIBE_CONFIGS),
        (Permission.CREATE,),
        (Permission.WRITE,),
    ]
    assert [acl.operations for acl in find(acls, Resource.TOPIC, "letters")] == [
        (Permission.WRITE, Permission.DESCRIBE_CONFIGS),
        (Permission.READ, Permission.DELETE),
    ]
    assert find(acls, Resource.TRANSACTIONAL_ID, "millrace-replay-letters")
    assert len({(acl.resource, acl.name, each) for acl in acls for each in acl.operations}) == sum(
        len(acl.operations) for acl in acls
    ), "nothing stands there twice"


def test_a_canary_may_touch_its_own_only_and_read_what_the_application_writes() -> None:
    acls = needed_acls(spec(**USER), purpose=Purpose.CANARY).acls
    others = {(acl.name, acl.operations) for acl in acls if not acl.name.startswith("fraud-canary")}
    assert others == {("fraud-alerts", (Permission.READ,))}
    assert find(acls, Resource.GROUP, "fraud-canary")[0].operations == (Permission.READ, Permission.DELETE)


def test_topics_that_records_choose_are_said_to_be_unknown() -> None:
    needed = needed_acls(spec(f"{__name__}:choosing", **USER))
    (note,) = needed.notes
    assert "record by record" in note


def test_a_certificate_s_name_must_be_given() -> None:
    with pytest.raises(ConfigurationError, match=r"no sasl\.username"):
        needed_acls(spec())
    assert needed_acls(spec(), principal="User:CN=fraud").principal == "User:CN=fraud"


def test_commands_are_those_of_kafka_acls() -> None:
    commands = needed_acls(spec(), principal="User:CN=fraud,O=me you", purpose=Purpose.RUN).commands()
    head = "kafka-acls.sh --bootstrap-server b:9092 --command-config admin.properties --add --allow-principal "
    assert all(line.startswith(head + "'User:CN=fraud,O=me you' --operation ") for line in commands)
    tails = [line.removeprefix(head) for line in commands]
    assert "'User:CN=fraud,O=me you' --operation Write --transactional-id fraud- --resource-pattern-type prefixed" in (
        tails
    )
    assert "'User:CN=fraud,O=me you' --operation DescribeConfigs --cluster" in tails
