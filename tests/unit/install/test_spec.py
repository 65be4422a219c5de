from __future__ import annotations

import os
from pathlib import Path

import pytest

from millrace.errors import ConfigurationError
from millrace.install.spec import RestartSettings, load_named_spec, load_spec, load_spec_file, load_specs

MINIMAL = "name: payments\nmodule: apps.payments:build\nconfig: {bootstrap.servers: 'localhost:9092'}\n"


def write(directory: Path, text: str, name: str = "payments") -> Path:
    path = directory / f"{name}.yaml"
    path.write_text(text)
    return path


def test_the_application_id_is_the_name_unless_it_is_set(tmp_path: Path) -> None:
    assert load_spec(write(tmp_path, MINIMAL)).streams_config().application_id == "payments"
    text = MINIMAL.replace("{", "{application.id: other, ")
    assert load_spec(write(tmp_path, text)).streams_config().application_id == "other"


def test_the_local_launcher_lets_spark_try_a_task_again(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path, MINIMAL + "launcher: {parallelism: 3}\n"))
    assert spec.streams_config().master == "local[3,4]"


def test_the_standalone_launcher_sizes_its_executors(tmp_path: Path) -> None:
    launcher = "launcher: {kind: standalone, master: 'spark://host:7077', executors: 3, executor_cores: 2}\n"
    config = load_spec(write(tmp_path, MINIMAL + launcher)).streams_config()
    assert config.master == "spark://host:7077"
    assert config.client_settings("spark.")["cores.max"] == "6"


@pytest.mark.parametrize(
    ("addition", "message"),
    [
        ("upgrade_mod: stateless", "unknown key 'upgrade_mod'; the nearest known one is 'upgrade_mode'"),
        (
            "health: {poll_interval: 1}",
            "health: unknown key 'poll_interval'; the nearest known one is 'poll_interval_s'",
        ),
        (
            "topics: [{name: a, partition: 3}]",
            "topics.0: unknown key 'partition'; the nearest known one is 'partitions'",
        ),
        ("state: paused", "state: Input should be 'running' or 'suspended'"),
        ("launcher: {parallelism: 0}", "launcher.parallelism: Input should be greater than or equal to 1"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_the_file(tmp_path: Path, addition: str, message: str) -> None:
    path = write(tmp_path, MINIMAL + addition)
    with pytest.raises(ConfigurationError) as caught:
        load_spec(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_wrong_setting_is_named_with_the_nearest_known_one(tmp_path: Path) -> None:
    text = MINIMAL.replace("{", "{comit.interval.ms: 5, ")
    with pytest.raises(ConfigurationError, match=r"'comit.interval.ms'; the nearest known one is 'commit.interval.ms'"):
        load_spec(write(tmp_path, text))


@pytest.mark.parametrize("text", ["a: [", "just text", ""])
def test_what_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError):
        load_spec(write(tmp_path, text))


def test_a_missing_file_lists_those_that_are_there(tmp_path: Path) -> None:
    write(tmp_path, MINIMAL)
    with pytest.raises(ConfigurationError, match="those that are there: payments"):
        load_spec(tmp_path / "paiments.yaml")


def test_variables_are_filled_in_and_do_not_change_the_hash(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL.replace("localhost:9092", "${BROKERS:-localhost:1}"))
    here = load_spec_file(path, environment={})
    there = load_spec_file(path, environment={"BROKERS": "kafka:9092"})
    assert here.spec.streams_config().bootstrap_servers == "localhost:1"
    assert there.spec.streams_config().bootstrap_servers == "kafka:9092"
    assert here.hash == there.hash


def test_an_unset_variable_without_default_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL.replace("localhost:9092", "${BROKERS}"))
    with pytest.raises(ConfigurationError, match="variable BROKERS is not set"):
        load_spec_file(path, environment={})


def test_a_saved_specification_says_the_same_and_holds_no_secret(tmp_path: Path) -> None:
    text = MINIMAL.replace("{", "{producer.sasl.password: '${PASSWORD:-}', ")
    before = load_spec_file(write(tmp_path, text), environment={"PASSWORD": "secret"})
    before.save(tmp_path / "saved.yaml")
    assert "secret" not in (tmp_path / "saved.yaml").read_text()
    assert load_spec_file(tmp_path / "saved.yaml", environment={}).hash == before.hash


def test_one_invalid_file_does_not_hide_the_others(tmp_path: Path) -> None:
    write(tmp_path, MINIMAL)
    write(tmp_path, "nonsense: 1", "broken")
    write(tmp_path, MINIMAL, "misnamed")
    found = load_specs(tmp_path)
    assert isinstance(found["broken"], ConfigurationError)
    assert isinstance(found["misnamed"], ConfigurationError)
    assert not isinstance(found["payments"], ConfigurationError)


def test_a_specification_is_refused_under_another_name_in_the_same_words_everywhere(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL, "orders")
    found = load_specs(tmp_path)["orders"]
    with pytest.raises(ConfigurationError, match=r"orders.yaml describes 'payments'") as caught:
        load_named_spec(path)
    assert isinstance(found, ConfigurationError)
    assert (found.message, found.remedy) == (caught.value.message, caught.value.remedy)


def test_a_file_whose_name_is_none_of_an_application_is_an_entry_with_a_printable_name(tmp_path: Path) -> None:
    write(tmp_path, MINIMAL)
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/auftr\xe4ge.yaml")).write_text(MINIMAL)
    write(tmp_path, MINIMAL, "my orders")
    found = load_specs(tmp_path)
    assert sorted(found) == ["auftr\\udce4ge", "my orders", "payments"]
    for name in ("auftr\\udce4ge", "my orders"):
        error = found[name]
        assert isinstance(error, ConfigurationError)
        assert "has no name of an application" in error.message
        error.message.encode()


def test_files_that_editors_hide_are_no_specifications(tmp_path: Path) -> None:
    write(tmp_path, MINIMAL)
    (tmp_path / ".#payments.yaml").symlink_to("me@host.123")
    assert list(load_specs(tmp_path)) == ["payments"]


def test_a_directory_that_cannot_be_listed_is_told(tmp_path: Path) -> None:
    (tmp_path / "apps").write_text("no directory")
    with pytest.raises(ConfigurationError, match="cannot be listed: Not a directory"):
        load_specs(tmp_path / "apps")
    assert load_specs(tmp_path / "missing") == {}


def test_the_backoff_doubles_up_to_its_limit() -> None:
    policy = RestartSettings(initial_backoff_s=1, max_backoff_s=10)
    assert [policy.backoff_s(restarts) for restarts in (0, 1, 2, 3, 4, 10_000)] == [1, 2, 4, 8, 10, 10]
