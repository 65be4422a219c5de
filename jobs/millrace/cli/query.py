"""``millrace query`` and ``millrace query-server``: reading the state of a running application."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millrace.cli.console import out
from millrace.cli.environment import fill_in_environment, named_spec
from millrace.logs import LogFormat, configure_logs

if TYPE_CHECKING:
    from millrace.queries import QueryClient

_Milliseconds = Annotated[int | None, typer.Option(metavar="MS", help="Milliseconds since the epoch, inclusive.")]


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("query", epilog="Example: [bold]millrace query fraud-detection spent-per-window fetch card-7[/]")(query)
    app.command(
        "query-server", epilog="Example: [bold]millrace query-server fraud-detection --address 127.0.0.1:7070[/]"
    )(query_server)


def query(  # noqa: PLR0917 - the arguments of a command
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the application.")],
    store: Annotated[str | None, typer.Argument(metavar="[STORE]", help="Store; without it, all are listed.")] = None,
    operation: Annotated[
        str, typer.Argument(metavar="[OPERATION]", help="get, range, prefix, all, fetch, fetch_all or versions.")
    ] = "all",
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Key or prefix: text, a number, JSON, or base64:...")
    ] = None,
    from_key: Annotated[str | None, typer.Option("--from", help="First key of a range.")] = None,
    to_key: Annotated[str | None, typer.Option("--to", help="Last key of a range.")] = None,
    from_time: _Milliseconds = None,
    to_time: _Milliseconds = None,
    as_of: _Milliseconds = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Most entries.")] = 100,
    page: Annotated[str | None, typer.Option(help="`next` of the answer before.")] = None,
    stale: Annotated[bool, typer.Option("--stale", help="Answer also from a task that does not run.")] = False,
    server: Annotated[
        str | None, typer.Option(help="http://host:port of a query server. Default: the one of this installation.")
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="File with its token.", dir_okay=False)] = None,
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.0, help="How long to wait for a query server that is starting.")
    ] = 0.0,
) -> None:
    """Ask a store of a running application; prints the answer as JSON, with task, host, position and age.

    `millrace query-server NAME` must run on the hosts of the application.
    """
    from millrace.driver.control_file import ControlFile, read_token
    from millrace.errors import OperationError
    from millrace.install.home import Home
    from millrace.json_numbers import dumps
    from millrace.queries import QueryClient
    from millrace.queries.run import CONTROL_FILE

    if server is None or token_file is None:
        path = Home.from_environment().application(name).path / CONTROL_FILE
        deadline = time.monotonic() + wait
        while not path.exists():
            if time.monotonic() >= deadline:
                raise OperationError(
                    f"No query server of {name} runs in this installation.",
                    remedy=f"start one: `millrace query-server {name}`, or name one with --server and --token-file",
                )
            time.sleep(0.1)
        control = ControlFile.read(path)
        server, token_file = server or control.address, token_file or Path(control.token_file)
    parameters: dict[str, object] = {
        "prefix" if operation == "prefix" else "key": key,
        "from_": from_key,
        "to": to_key,
        "from_time": from_time,
        "to_time": to_time,
        "as_of": as_of,
        "limit": limit,
        "stale": stale,
    }
    with QueryClient(server, read_token(token_file)) as client:
        answer = client.stores() if store is None else _answer(client, store, operation, page, parameters)
    out.print(dumps(answer, indented=True).decode(), markup=False)


def _answer(
    client: QueryClient, store: str, operation: str, page: str | None, parameters: dict[str, object]
) -> dict[str, Any]:
    """The first page that has something: each is one task's, and one without entries is skipped."""
    answer = client.answer(store, operation, **parameters, page=page)
    while answer.get("entries") == [] and answer["next"] is not None:
        answer = client.answer(store, operation, **parameters, page=answer["next"])
    return answer


def query_server(  # noqa: PLR0917 - the arguments of a command
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="Specification: a YAML file, or a name in config/apps.")],
    address: Annotated[str, typer.Option(help="host:port to listen on; port 0 takes a free one.")] = "127.0.0.1:0",
    token_file: Annotated[
        Path | None, typer.Option(help="File with the bearer token of requests. Default: a new token.", dir_okay=False)
    ] = None,
    freshness_ms: Annotated[int, typer.Option(min=1, help="Milliseconds between two probes for new commits.")] = 100,
    peer: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST=URL", help="Query server of another host of the application; may be repeated."),
    ] = None,
    nice: Annotated[
        int,
        typer.Option(
            min=-20,
            max=19,
            help="Priority of the server, as of nice(1): -10 keeps answers fast beside a busy application.",
        ),
    ] = 0,
    host_name: Annotated[
        str | None,
        typer.Option(help="This host's name as the application's workers report it. Default: the system's name."),
    ] = None,
    run_directory: Annotated[
        Path | None,
        typer.Option(help="Where query.json and the token go. Default: run/NAME of the installation.", file_okay=False),
    ] = None,
    log_format: Annotated[
        LogFormat | None, typer.Option(help="Default: console on a terminal, json elsewhere.")
    ] = None,
) -> None:
    """Answer queries about the state that this host has of an application, until it is stopped.

    It reads the files of the state directory and the status topic; it never writes to them and takes no lock.
    """
    from millrace.driver.matched_topics import with_topics_read
    from millrace.dsl.loading import load_topology
    from millrace.install.home import Home
    from millrace.install.launchers import refuse_state_elsewhere
    from millrace.install.which_spec import Use
    from millrace.queries.run import run_query_server

    configure_logs(log_format=log_format)
    fill_in_environment()
    loaded = named_spec(spec, Use.RUNNING).spec
    refuse_state_elsewhere(loaded, what="answer queries about")
    config = loaded.streams_config()
    run_query_server(
        config,
        with_topics_read(load_topology(loaded.module, config), config),
        run_directory=run_directory or Home.from_environment().application(loaded.name).path,
        address=address,
        token_file=token_file,
        freshness_ms=freshness_ms,
        peers=dict(_peer(each) for each in peer or []),
        nice=nice,
        host=host_name,
    )


def _peer(text: str) -> tuple[str, str]:
    host, separator, url = text.partition("=")
    if not separator or not url.startswith(("http://", "https://")):
        raise typer.BadParameter(f"{text!r} is not HOST=URL", param_hint="--peer")
    return host, url.rstrip("/")
