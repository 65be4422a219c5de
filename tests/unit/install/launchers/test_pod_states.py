"""What recorded descriptions of pods and reports of YARN mean for the driver (recorded/SOURCES.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from millrace.install.home import ApplicationDirectory
from millrace.install.launchers.instance import ControlPlane, Presence
from millrace.install.launchers.kubernetes import DriverPod
from millrace.install.launchers.tools import ToolOutput
from millrace.install.launchers.yarn import YarnApplication, application_id

RECORDED = Path(__file__).with_name("recorded")
DIRECTORY = ApplicationDirectory(Path("/installation/run/orders"))
POD = DriverPod(pod="orders-driver", uid="1", namespace="streams", context="", port=7070)
APPLICATION = YarnApplication(id="application_1763396678263_0007", port=7070)
TOKEN = Path("/installation/run/orders/control.token")


def pod(name: str, **metadata: str) -> dict[str, Any]:
    status = json.loads((RECORDED / f"pod-{name}.json").read_text())
    return {"metadata": {"name": "orders-driver", "uid": "1", **metadata}, "status": status}


@pytest.mark.parametrize(
    ("name", "presence", "text"),
    [
        ("image", Presence.ALIVE, 'is Pending: ImagePullBackOff: Back-off pulling image "registry/missing:1"'),
        ("unschedulable", Presence.ALIVE, "is Pending: Unschedulable: 0/3 nodes are available: 3 Insufficient memory."),
        ("oom", Presence.GONE, "is Failed: OOMKilled (exit code 137)"),
        ("evicted", Presence.GONE, "is Failed: Evicted: The node was low on resource: memory."),
    ],
)
def test_a_pod_that_does_not_work_says_why(name: str, presence: Presence, text: str) -> None:
    probe_result = POD.probe_result(pod(name), DIRECTORY)
    assert probe_result.presence is presence
    assert probe_result.text.startswith(f"pod streams/orders-driver {text}")
    assert probe_result.control is None


def test_a_running_pod_is_asked_at_its_address() -> None:
    probe_result = POD.probe_result(pod("running"), DIRECTORY)
    assert probe_result.presence is Presence.ALIVE
    assert probe_result.control == ControlPlane(address="http://10.1.2.3:7070", token_file=TOKEN)


def test_a_pod_on_a_lost_node_is_alive_until_it_is_seen_to_end() -> None:
    probe_result = POD.probe_result(pod("running", deletionTimestamp="2023-05-06T21:03:58Z"), DIRECTORY)
    assert (probe_result.presence, probe_result.text) == (
        Presence.ALIVE,
        "pod streams/orders-driver is Running, being deleted",
    )


def report(name: str, code: int = 0) -> ToolOutput:
    return ToolOutput(code=code, text=(RECORDED / f"yarn-{name}.txt").read_text(), messages="")


@pytest.mark.parametrize(
    ("name", "code", "presence", "text"),
    [
        ("accepted", 0, Presence.ALIVE, "is ACCEPTED: [Mon Sep 02 22:56:41 +0800 2019] Application is added to"),
        ("finished", 0, Presence.GONE, "is FINISHED (SUCCEEDED)"),
        ("killed", 0, Presence.GONE, "is KILLED (KILLED): Application application_1763396678263_0007 was killed by"),
        ("failed", 0, Presence.GONE, "is FAILED (FAILED): Application application_1763396678263_0007 failed 2 times"),
        ("unknown", 255, Presence.GONE, "is not known to the resource manager any more"),
    ],
)
def test_an_application_of_yarn_that_does_not_run_says_why(name: str, code: int, presence: Presence, text: str) -> None:
    """Case A08, as the three below."""
    probe_result = APPLICATION.probe_result(report(name, code), DIRECTORY)
    assert probe_result.presence is presence
    assert probe_result.text.startswith(f"YARN application_1763396678263_0007 {text}")
    assert probe_result.control is None


def test_diagnostics_of_several_lines_are_read_to_their_end() -> None:
    probe_result = APPLICATION.probe_result(report("failed"), DIRECTORY)
    assert "running beyond physical memory limits" in probe_result.text
    assert "Unmanaged" not in probe_result.text


def test_a_running_application_of_yarn_is_asked_on_the_host_of_its_master() -> None:
    probe_result = APPLICATION.probe_result(report("running"), DIRECTORY)
    assert probe_result.presence is Presence.ALIVE
    assert probe_result.control == ControlPlane(address="http://node6.internal:7070", token_file=TOKEN)


@pytest.mark.parametrize("state", ["NEW_SAVING", "SUBMITTED", "FINAL_SAVING", "KILLING", "a later version's"])
def test_an_application_of_yarn_lives_until_it_is_said_to_have_ended(state: str) -> None:
    text = report("running").text.replace("State : RUNNING", f"State : {state}")
    assert f"State : {state}" in text
    assert APPLICATION.probe_result(ToolOutput(code=0, text=text, messages=""), DIRECTORY).presence is Presence.ALIVE


def test_a_resource_manager_that_does_not_answer_tells_nothing_of_the_driver() -> None:
    refused = (
        'Exception in thread "main" java.net.ConnectException: Call From a to b:8032 failed\n\tat org.apache.Foo.bar'
    )
    probe_result = APPLICATION.probe_result(ToolOutput(code=1, text="", messages=refused), DIRECTORY)
    assert probe_result.presence is Presence.UNKNOWN
    assert "ConnectException" in probe_result.text
    assert "org.apache" not in probe_result.text


def test_the_application_s_id_is_read_out_of_what_spark_submit_says() -> None:
    assert application_id((RECORDED / "spark-submit-yarn.txt").read_text()) == "application_1763396678263_0007"
    assert application_id("25/11/17 20:48:00 INFO Client: Uploading application_1_2") is None
