"""The surroundings of a command: the installation, its broker, and specifications that refer to both."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from millrace.errors import ConfigurationError
from millrace.home import HOME_VARIABLE, millrace_home

if TYPE_CHECKING:
    from millrace.install.application import Application
    from millrace.install.spec import SpecFile
    from millrace.install.which_spec import Use

LAUNCHED_NAME = "spec.yaml"
BOOTSTRAP_VARIABLE = "MILLRACE_BOOTSTRAP_SERVERS"


def fill_in_environment() -> None:
    """Sets the variables that specifications refer to, where the caller did not set them.

    ``MILLRACE_HOME`` is the application_named, ``MILLRACE_BOOTSTRAP_SERVERS`` the embedded broker of it, if that runs.
    """
    os.environ.setdefault(HOME_VARIABLE, str(millrace_home()))
    if not os.environ.get(BOOTSTRAP_VARIABLE) and (address := embedded_broker()):
        os.environ[BOOTSTRAP_VARIABLE] = address


def embedded_broker() -> str:
    """Address of this installation's broker; empty if it does not run."""
    from millrace.embedded.record import read_record

    record = read_record(millrace_home() / "broker")
    return record[1] if record is not None and record[0].is_alive() else ""


def bootstrap_servers(given: str | None) -> str:
    """Returns the broker to talk to: the one that was named, the variable's, or the embedded one.

    Raises:
        ConfigurationError: there is none of them.
    """
    found = given or os.environ.get(BOOTSTRAP_VARIABLE) or embedded_broker()
    if not found:
        raise ConfigurationError(
            "No broker was named, and the embedded one does not run.",
            remedy=f"give --bootstrap-servers, set {BOOTSTRAP_VARIABLE}, or start one with `millrace broker start`",
        )
    return found


def application_here(name: str) -> Application:
    """Returns the application ``name`` of this installation."""
    from millrace.install.application import Application
    from millrace.install.home import Home

    return Application(Home.from_environment(), name)


def spec_path(target: str) -> Path:
    """Returns the file of a specification that was named by its path or by the application's name."""
    from millrace.install.home import Home

    return Path(target) if _is_file(target) else Home.from_environment().spec_path(target)


def _is_file(target: str) -> bool:
    # A directory of an application's name is likely to be where its code is.
    return Path(target).suffix in {".yaml", ".yml"} or Path(target).is_file()


def named_spec(target: str, use: Use) -> SpecFile:
    """Returns the specification that a command was given by its file's path or by the application's name.

    One that is a file of ``config/apps``, or was named by the application, is what counts for ``use``; where that and
    what was launched differ, a line says so. Any other file is taken as it is.

    Raises:
        ConfigurationError: there is none, it is not valid, or it describes another application than its file's name.
    """
    from millrace.install.home import Home
    from millrace.install.spec import load_named_spec, load_spec_file

    home, path = Home.from_environment(), spec_path(target)
    if path.name == LAUNCHED_NAME and _is_file(target):
        return load_spec_file(path)  # the copy that a launch has made, or a cluster's launcher has sent
    if path.parent.resolve() == home.specs.resolve() and path.suffix == ".yaml":
        application = application_here(path.stem)
        chosen = application.specification(use)
        print_difference(use, application)
        return chosen.file
    return load_named_spec(path)


def print_difference(use: Use, *applications: Application) -> None:
    """Print a line for each application of which what was launched differs from what is there now."""
    from millrace.cli.console import messages
    from millrace.launch.changes import difference_note

    for application in applications:
        if note := difference_note(use, application):
            messages.print(f"note: {note}", markup=False)
