"""A cluster that is named with its login, where no specification says it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.errors import ConfigurationError
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.named_cluster import NamedCluster, config_of, read_login

WriteSpec = Callable[..., Path]


def test_the_cluster_and_its_login_stand_in_for_a_specification(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_PASSWORD", "secret")
    login = tmp_path / "login.properties"
    login.write_text("security.protocol=SASL_PLAINTEXT\nsasl.password=${TEST_PASSWORD}\n")
    cluster = NamedCluster(bootstrap_servers="named:1", command_config=login)
    config = config_of(Application(home, "elsewhere"), cluster)
    assert (config.application_id, config.bootstrap_servers) == ("elsewhere", "named:1")
    expected = {"security.protocol": "SASL_PLAINTEXT", "sasl.password": "secret"}
    assert config.client_settings("admin.").items() >= expected.items()


def test_a_named_cluster_goes_before_the_specification(home: Home, write_spec: WriteSpec) -> None:
    write_spec(config={"bootstrap.servers": "written:1"})
    application = Application(home, "payments")
    assert config_of(application).bootstrap_servers == "written:1"
    assert config_of(application, NamedCluster(bootstrap_servers="named:1")).bootstrap_servers == "named:1"


def test_with_neither_the_remedy_says_how_to_name_one(home: Home) -> None:
    with pytest.raises(ConfigurationError) as error:
        config_of(Application(home, "elsewhere"))
    assert "--application-id" in error.value.remedy


def test_a_login_has_no_other_settings(tmp_path: Path) -> None:
    assert read_login(None) == {}
    login = tmp_path / "login.properties"
    login.write_text("ssl.ca.location=/ca.pem\nbootstrap.servers=other:1\n")
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers, which is no setting of a login"):
        read_login(login)
