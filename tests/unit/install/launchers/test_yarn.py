"""Operations on an application of YARN; yarn and spark-submit are the tests' own and say what was recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from millrace.errors import ConfigurationError, OperationError
from millrace.install.application import Application
from millrace.install.home import ApplicationDirectory, Home
from millrace.install.launchers.instance import Presence
from millrace.install.launchers.tools import ToolOutput
from millrace.install.launchers.yarn.application import YarnApplication
from millrace.install.spec import load_spec
from millrace.launch import Reason, Verdict, observe
from millrace.launch.driver import StopLimits
from millrace.operations import stop
from millrace.supervise import deploy, reconcile

RECORDED = Path(__file__).with_name("recorded")
FAST = StopLimits(graceful_s=0, terminate_s=5, kill_s=5)
ID = "application_1763396678263_0007"
YARN = """
import json, sys
from pathlib import Path
home = Path({home!r})
with (home / "asked").open("a") as asked:
    asked.write(" ".join(sys.argv[1:]) + "\\n")
state = (home / "state").read_text()
verb = sys.argv[2]
if state == "unreachable":
    sys.exit("java.net.ConnectException: Call From here to there:8032 failed on connection exception")
if verb == "-kill":
    (home / "state").write_text("killed")
elif verb == "-list":
    known = state in ("accepted", "running")
    print("Total number of applications (states: [ACCEPTED] and tags: [millrace-orders]):%d" % known)
    print("                Application-Id\\t    Application-Name\\t    Application-Type")
    if known:
        print("{id}\\t              orders\\t               SPARK")
else:
    print(Path({recorded!r}, "yarn-" + state + ".txt").read_text())
    sys.exit(255 if state == "unknown" else 0)
"""
SUBMITS = """
import sys
from pathlib import Path
Path({home!r}, "state").write_text("accepted")
sys.stderr.write(Path({recorded!r}, "spark-submit-yarn.txt").read_text())
"""
FAILS = """
import sys
sys.exit('Exception in thread "main" AccessControlException: Queue is full\\n\\tat org.apache.spark.Foo')
"""


class Yarn:
    """What the resource manager thinks."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.state = "none"

    @property
    def state(self) -> str:
        return (self._home / "state").read_text()

    @state.setter
    def state(self, name: str) -> None:
        (self._home / "state").write_text(name)

    @property
    def asked(self) -> list[str]:
        """The commands that it was given."""
        return (self._home / "asked").read_text().splitlines()


@pytest.fixture
def yarn(tmp_path: Path, program: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> Yarn:
    directory = tmp_path / "cluster"
    directory.mkdir()
    values = {"home": str(directory), "recorded": str(RECORDED), "id": ID}
    program("yarn", YARN.format(**values))
    program("spark-submit", SUBMITS.format(**values))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(directory))
    return Yarn(directory)


@pytest.fixture
def write(home: Home) -> Callable[..., Home]:
    """Writes the specification of an application of YARN."""

    def write(*, launcher: dict[str, Any] | None = None, state_dir: str | None = "/data/state") -> Home:
        config = {"bootstrap.servers": "localhost:1", **({"state.dir": state_dir} if state_dir else {})}
        document = {
            "name": "orders",
            "module": "apps.nothing:build",
            "config": config,
            "preflight": {"enabled": False},
            "restart": {"initial_backoff_s": 0.0},
            "launcher": {"kind": "yarn", **(launcher or {})},
        }
        home.spec_path("orders").write_text(yaml.safe_dump(document))
        return home

    return write


Write = Callable[..., Home]


def test_nothing_that_a_submission_shows_has_the_coordinator_s_token_and_its_port_is_one_of_the_node(
    write: Write, yarn: Yarn
) -> None:
    """The token is made by the driver, in the application master, and goes to executors with their Spark tasks."""
    home = write()
    assert load_spec(home.spec_path("orders")).streams_config().coordinator_port == 0
    deploy(Application(home, "orders"))
    properties = (home.application("orders").path / "submission.properties").read_text()
    assert "coordinator" not in properties
    names = {line.partition("=")[0] for line in properties.splitlines()}
    assert not {name for name in names if "token" in name.lower()}


def test_a_deployed_application_is_observed_restarted_and_stopped(write: Write, yarn: Yarn) -> None:
    home = write(launcher={"yarn": {"archive": "hdfs:///env.tar.gz"}})
    outcome = deploy(Application(home, "orders"))
    assert outcome.steps[-1] == f"launched YARN {ID}"
    seen = outcome.observation
    assert seen is not None
    assert (seen.verdict, seen.reason) == (Verdict.WAITING, Reason.STARTING)
    assert "Queue's AM resource limit exceeded" in seen.text
    directory = home.application("orders")
    properties = dict(
        line.split("=", 1) for line in (directory.path / "submission.properties").read_text().splitlines()
    )
    assert properties["spark.yarn.dist.archives"] == "hdfs:///env.tar.gz#environment"
    assert properties["spark.yarn.dist.files"].split(",") == [
        str(directory.spec),
        str(directory.path / "control.token"),
    ]
    assert deploy(Application(home, "orders")).action == "nothing"

    yarn.state = "failed"
    seen = observe(Application(home, "orders"))
    assert (seen.verdict, seen.reason) == (Verdict.DEAD, Reason.PROCESS_DIED)
    assert "running beyond physical memory limits" in seen.text
    assert reconcile(Application(home, "orders")).action == "restart"

    assert stop(Application(home, "orders"), limits=FAST).steps == (f"killed YARN {ID}",)
    assert f"application -kill {ID}" in yarn.asked
    assert observe(Application(home, "orders")).verdict is Verdict.STOPPED
    assert stop(Application(home, "orders"), limits=FAST).action == "nothing"


def test_an_application_that_ended_without_being_asked_is_dead(write: Write, yarn: Yarn) -> None:
    """Case A08: also where YARN calls it a success, as nothing that reads a stream ends by itself."""
    home = write()
    deploy(Application(home, "orders"))
    for state, text in (
        ("finished", "is FINISHED (SUCCEEDED)"),
        ("killed", "was killed by user hadoop"),
        ("unknown", "is not known to the resource manager"),
    ):
        yarn.state = state
        seen = observe(Application(home, "orders"))
        assert seen.verdict is Verdict.DEAD
        assert text in seen.text


def test_a_resource_manager_that_does_not_answer_is_no_dead_driver(write: Write, yarn: Yarn) -> None:
    home = write()
    deploy(Application(home, "orders"))
    yarn.state = "unreachable"
    seen = observe(Application(home, "orders"))
    assert (seen.verdict, seen.reason) == (Verdict.WAITING, Reason.CLUSTER_UNREACHABLE)
    assert reconcile(Application(home, "orders")).action == "nothing"
    with pytest.raises(OperationError, match=r"cannot be found out: yarn does not tell of .*ConnectException"):
        stop(Application(home, "orders"), limits=FAST)


def test_a_driver_that_the_record_does_not_know_is_adopted_and_not_doubled(write: Write, yarn: Yarn) -> None:
    """Case A04: the operation was killed between submitting and writing its record."""
    home = write()
    deploy(Application(home, "orders"))
    path = home.application("orders").record
    record = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in record.items() if key != "yarn_application"}))
    assert deploy(Application(home, "orders")).action == "nothing"
    assert json.loads(path.read_text())["yarn_application"] == ID
    assert "application -list -appTags millrace-orders -appStates SUBMITTED,ACCEPTED,RUNNING" in yarn.asked


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            FAILS,
            r"could not be submitted \(exit code 1\): .*AccessControlException",
        ),
        ("", "spark-submit ended well, and named no application"),
    ],
)
def test_a_failed_submission_is_an_error_that_says_why(
    write: Write, yarn: Yarn, program: Callable[[str, str], Path], source: str, message: str
) -> None:
    program("spark-submit", source)
    with pytest.raises(OperationError, match=message):
        deploy(Application(write(), "orders"))
    assert yarn.state == "none"


def test_a_missing_program_is_named(write: Write, yarn: Yarn, monkeypatch: pytest.MonkeyPatch) -> None:
    assert yarn.state == "none"
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(OperationError, match="yarn cannot be run: No such file"):
        deploy(Application(write(), "orders"))


def test_a_specification_that_lacks_something_is_refused(
    write: Write, yarn: Yarn, monkeypatch: pytest.MonkeyPatch
) -> None:
    for state_dir in (None, "state"):
        with pytest.raises(ConfigurationError, match="which is no directory of every node"):
            deploy(Application(write(state_dir=state_dir), "orders"))
    monkeypatch.delenv("HADOOP_CONF_DIR")
    with pytest.raises(ConfigurationError, match="nothing says where its cluster is"):
        deploy(Application(write(), "orders"))
    assert yarn.state == "none"


@pytest.mark.parametrize(
    ("said", "is_fenced"),
    [
        ("exited with  exitCode: 3", True),
        ("User application exited with status 3", True),
        ("exited with  exitCode: 137", False),
        ("exited with  exitCode: -104", False),
    ],
)
def test_the_exit_code_of_a_driver_that_was_replaced_is_read_from_the_diagnostics(
    tmp_path: Path, said: str, is_fenced: bool
) -> None:
    text = (RECORDED / "yarn-failed.txt").read_text().replace("exited with  exitCode: -104", said)
    answer = ToolOutput(code=0, text=text, messages="")
    probe_result = YarnApplication(id=ID, port=7070).probe_result(answer, ApplicationDirectory(tmp_path))
    assert probe_result.presence is Presence.GONE
    assert (probe_result.ending is not None) == is_fenced
