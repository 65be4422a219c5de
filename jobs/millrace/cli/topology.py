"""The command ``millrace topology``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from millrace.cli.console import messages, out
from millrace.cli.environment import fill_in_environment, named_spec

_FUNCTION = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog="Example: [bold]millrace topology fraud-detection --svg topology.svg[/]")(topology)


def topology(
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="Specification file, name in config/apps, or package.module:function."),
    ],
    svg: Annotated[Path | None, typer.Option(help="Write a picture to this file as well.", dir_okay=False)] = None,
) -> None:
    """Print an application's topology as Kafka Streams' Topology#describe() does; needs neither broker nor Spark."""
    from millrace.dsl.loading import load_topology
    from millrace.install.which_spec import Use
    from millrace.topology.picture import picture

    fill_in_environment()
    if _FUNCTION.match(target):
        loaded = load_topology(target)
    else:
        spec = named_spec(target, Use.DEPLOYMENT).spec
        loaded = load_topology(spec.module, spec.streams_config())
    out.print(loaded.describe(), markup=False, end="")
    if svg is not None:
        svg.write_text(picture(loaded), encoding="utf-8")
        messages.print(f"picture written to {svg}", markup=False)
