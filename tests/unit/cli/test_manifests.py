"""``millrace manifests --kubernetes-version``: a manifest that a cluster would refuse is found before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from millrace.cli.manifests import check_against_schema
from millrace.errors import ConfigurationError
from tests.unit.cli.conftest import Cli

SPEC = """\
name: orders
module: apps.fraud_detection:build
config: {bootstrap.servers: "localhost:1"}
launcher: {kind: kubernetes, master: "k8s://https://localhost:1", kubernetes: {image: "millrace:1"}}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "apps" / "orders.yaml"
    file.write_text(SPEC)
    return file


@pytest.mark.parametrize("version", ["1.30", "v1.30.4"])
def test_what_a_cluster_takes_is_printed_as_without_the_version(cli: Cli, spec: Path, version: str) -> None:
    result = cli("manifests", str(spec), "--kubernetes-version", version)
    assert (result.code, result.err) == (0, "")
    assert result.out == cli("manifests", str(spec)).out != ""


def test_a_version_that_nobody_knows_is_refused(cli: Cli, spec: Path) -> None:
    for version in ("0.9", "1.999", "new"):
        result = cli("manifests", str(spec), "--kubernetes-version", version)
        assert result.code == 1
        assert f"What Kubernetes {version} takes is not known" in result.err
        assert "give major.minor; 1.25 to 1." in result.err


def test_a_document_that_does_not_fit_is_named_with_the_place() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": 5}]}}
    with pytest.raises(ConfigurationError, match=r"1\.30 does not take the Pod: spec\.containers\.0\.name: 5 is not"):
        check_against_schema([pod], "1.30")


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes_validate", None)
    with pytest.raises(ConfigurationError) as caught:
        check_against_schema([], "1.30")
    assert "millrace[kubernetes]" in caught.value.remedy
