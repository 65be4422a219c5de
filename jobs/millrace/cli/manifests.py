"""``millrace manifests``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import yaml

from millrace.cli.console import messages, out
from millrace.cli.environment import fill_in_environment, named_spec


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog="Example: [bold]millrace manifests fraud-detection | kubectl apply -f -[/]")(manifests)


def manifests(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="Specification: a YAML file, or a name in config/apps.")],
    directory: Annotated[
        Path | None,
        typer.Option(help="Write manifests.yaml and the templates of the pods there instead.", file_okay=False),
    ] = None,
) -> None:
    """Print what Kubernetes is given of an application whose launcher is kubernetes.

    The driver's account and its rights are to be applied once, by somebody who may; a deployment applies the rest
    itself, with a Secret for the control plane's token, which is not printed.
    """
    from millrace.install.launchers.kubernetes import account, pod_templates, specification_map
    from millrace.install.which_spec import Use

    fill_in_environment()
    file = named_spec(spec, Use.DEPLOYMENT)
    driver, executor = pod_templates(file.spec)
    text = yaml.safe_dump_all([*account(file.spec), specification_map(file)], sort_keys=False)
    if directory is None:
        out.print(text, markup=False, soft_wrap=True, end="", highlight=False)
        return
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("manifests.yaml", text),
        ("driver-pod.yaml", yaml.safe_dump(driver, sort_keys=False)),
        ("executor-pod.yaml", yaml.safe_dump(executor, sort_keys=False)),
    ):
        (directory / name).write_text(content)
        messages.print(f"  wrote {directory / name}", markup=False)
