"""``millrace init``: a project of one's own, from the templates in ``project/``."""

from __future__ import annotations

import base64
import importlib.util
import os
import re
import secrets
import sys
from collections.abc import Mapping
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from millrace.cli.console import messages, out
from millrace.errors import ConfigurationError, OperationError

FILES: Mapping[str, str] = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    ".gitignore": "gitignore",
    "{package}/__init__.py": "package.py",
    "{package}/topology.py": "topology.py",
    "tests/test_topology.py": "test_topology.py",
    "config/apps/{application}.yaml": "specification.yaml",
    "dags/streams.py": "dags.py",
    "docker-compose.yml": "docker-compose.yml",
    "Dockerfile": "Dockerfile",
    ".dockerignore": "dockerignore",
    "wheels/README.md": "wheels.md",
    ".env": "env",
}
"""What a project has, by its path in it, and the template that it is made from."""
SECRET = ".env"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST_NAME = 100
_PLACEHOLDER = re.compile(r"\{\{ (\w+) \}\}")


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog="Example: [bold]millrace init shop-revenue[/]")(init)


def init(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="Directory of the project; it is made if it is missing.")
    ],
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the application. Default: that of the directory."),
    ] = None,
) -> None:
    """Make a project of one's own: an application, its test, its specification, DAGs, containers.

    A file that is there already is never overwritten: nothing is written then.
    """
    application = application_name(name or directory.absolute().name)
    texts = project_files(application)
    present = [path for path in texts if os.path.lexists(directory / path)]
    if present:
        raise OperationError(
            f"{directory} has {', '.join(present)} already; nothing was written.",
            remedy="name a directory that has none of them",
        )
    for path, text in texts.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        # It fails where the file has come meanwhile.
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode_of(path)), "w") as stream:
            stream.write(text)
        messages.print(f"  wrote {file}", markup=False)
    out.print(f"{application} is in {directory}; {directory / 'README.md'} says what comes next", markup=False)


def application_name(text: str) -> str:
    """Returns the name of an application that a name of a directory gives: lower case, with hyphens.

    Raises:
        ConfigurationError: it gives none, or the module of that name would hide another one.
    """
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if _NAME.fullmatch(name) is None or len(name) > _LONGEST_NAME:
        raise ConfigurationError(
            f"{text!r} gives no name of an application.",
            remedy="give --name: letters, digits and hyphens, a letter first, at most 100 of them",
        )
    package = package_name(name)
    if package in {*sys.stdlib_module_names, "tests", "dags", "config", "wheels"} or _is_installed(package):
        raise ConfigurationError(
            f"The application {name} would have the module {package}, and there is another one of that name.",
            remedy="give another name with --name",
        )
    return name


def package_name(application: str) -> str:
    """Returns the package with the code of an application."""
    return application.replace("-", "_")


def project_files(application: str) -> dict[str, str]:
    """Returns the texts of a new project by their paths in it.

    Args:
        application: its name, see :func:`application_name`.
    """
    values = {
        "application": application,
        "package": package_name(application),
        "version": version("millrace"),
        "versions": compatible_versions(version("millrace")),
        "kafka_version": _kafka_version(),
        # 16 bytes, as Kafka has it; the first one sees to it that the text begins with no hyphen.
        "cluster_id": base64.urlsafe_b64encode(b"m" + secrets.token_bytes(15)).decode().rstrip("="),
        "secret_key": secrets.token_urlsafe(32),
        "jwt_secret": secrets.token_urlsafe(32),
    }
    templates = files(__package__) / "project"
    return {
        path.format(**values): _PLACEHOLDER.sub(
            lambda match: values[match[1]], (templates / f"{name}.template").read_text()
        )
        for path, name in FILES.items()
    }


def compatible_versions(installed: str) -> str:
    """Returns the versions of Millrace that go with a project that this one has made, as a requirement has them.

    As of semantic versioning: up to the next major version, below 1.0 up to the next minor one.
    """
    major, minor, *_ = (int(part) for part in re.findall(r"\d+", installed))
    return f">={installed},<{f'0.{minor + 1}' if major == 0 else major + 1}"


def mode_of(path: str) -> int:
    """Permissions of a file before the umask: secrets are their owner's."""
    return 0o600 if path == SECRET else 0o644


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return True


def _kafka_version() -> str:
    from millrace.kafka.jars import KAFKA_VERSION

    return KAFKA_VERSION
