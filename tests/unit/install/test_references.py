from __future__ import annotations

from pathlib import Path

import pytest

from millrace.config import is_secret
from millrace.errors import ConfigurationError
from millrace.install.references import interpolate
from millrace.install.spec import spec_file_of

MINIMAL = {"name": "a", "module": "a:b"}


def test_a_secret_comes_from_the_environment_or_from_files(tmp_path: Path) -> None:
    (tmp_path / "kafka").write_text("pass word\n")
    (tmp_path / "all.properties").write_text("# secrets\nother = x=y\nkafka=k\n")
    told = {
        "plain": "${KAFKA}",
        "variable": "${env:KAFKA}",
        "mounted": f"${{dir:{tmp_path}:kafka}}",
        "lines": [f"${{file:{tmp_path}/all.properties:kafka}}", f"a ${{file:{tmp_path}/all.properties:other}} b"],
    }
    assert interpolate(told, {"KAFKA": "v"}) == {
        "plain": "v",
        "variable": "v",
        "mounted": "pass word",
        "lines": ["k", "a x=y b"],
    }


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("${env:NONE}", "NONE is not set"),
        ("${dir:/nowhere:kafka}", "/nowhere/kafka cannot be read"),
        ("${file:/dev/null:kafka}", "/dev/null has no line kafka="),
    ],
)
def test_what_a_reference_does_not_find_is_named(reference: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        interpolate(reference, {})


@pytest.mark.parametrize(
    "config",
    [
        {"sasl.password": "hunter2"},
        {"producer.ssl.key.password": "hunter2"},
        {"admin.ssl.key.pem": "hunter2"},
        {"spark.hadoop.fs.s3a.secret.key": "hunter2"},
        {"sasl.password": "${USER} hunter2"},
    ],
    ids=lambda config: next(iter(config)),
)
def test_a_specification_with_a_secret_written_out_is_refused_without_telling_it(config: dict[str, str]) -> None:
    raw = {**MINIMAL, "config": {"bootstrap.servers": "b:1", **config}}
    with pytest.raises(ConfigurationError, match=f"config.{next(iter(config))} is a secret") as raised:
        spec_file_of(raw, where="here", environment={"USER": "u"})
    assert "hunter2" not in str(raised.value)


def test_a_secret_of_the_driver_s_environment_is_one_as_well() -> None:
    raw = {**MINIMAL, "config": {"bootstrap.servers": "b:1"}, "launcher": {"environment": {"DB_PASSWORD": "hunter2"}}}
    with pytest.raises(ConfigurationError, match=r"launcher\.environment\.DB_PASSWORD is a secret"):
        spec_file_of(raw, where="here")


@pytest.mark.parametrize("name", ["control.token.file", "ssl.ca.location", "sasl.username", "ssl.certificate.pem"])
def test_what_only_sounds_alike_is_no_secret(name: str) -> None:
    assert not is_secret(name)


def test_a_password_in_an_address_is_refused_and_a_reference_in_it_is_not() -> None:
    def spec_with(url: str) -> None:
        raw = {**MINIMAL, "config": {"bootstrap.servers": "b:1", "spark.registry": url}}
        spec_file_of(raw, where="here", environment={"PASSWORD": "p"})

    with pytest.raises(ConfigurationError, match=r"config\.spark\.registry has a secret") as raised:
        spec_with("https://me:hunter2@registry:8081")
    assert "hunter2" not in str(raised.value)
    spec_with("https://me:${PASSWORD}@registry:8081")
    spec_with("https://registry:8081/a:b@c")
