"""The run of the query server of one application on one host."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import structlog

from millrace.config import StreamsConfig
from millrace.driver.control_file import QUERY_TOKEN_VARIABLE, ControlFile, new_token, read_token
from millrace.driver.status_follower import StatusFollower
from millrace.errors import ConfigurationError
from millrace.processes import ProcessIdentity
from millrace.queries.catalog import Catalog
from millrace.queries.follower import Follow
from millrace.queries.followers import Followers
from millrace.queries.server import QueryServer
from millrace.queries.service import QueryService
from millrace.topology.topology import FrozenTopology

CONTROL_FILE = "query.json"
TOKEN_FILE = "query.token"

_log = structlog.get_logger(__name__)


def run_query_server(
    config: StreamsConfig,
    topology: FrozenTopology,
    *,
    run_directory: Path,
    address: str,
    token_file: Path | None = None,
    freshness_ms: int = 100,
    peers: Mapping[str, str] | None = None,
    nice: int = 0,
    host: str | None = None,
) -> None:
    """Answers queries until the process gets SIGINT or SIGTERM.

    Args:
        config: the application's configuration.
        topology: its topology.
        run_directory: where ``query.json`` says where the server is reached, and where its token goes.
        address: ``host:port`` to listen on; port 0 takes a free one.
        token_file: file with the bearer token of requests; ``None`` takes the one of
            ``MILLRACE_QUERY_TOKEN``, or makes a new one.
        freshness_ms: time between two looks for new commits, milliseconds.
        peers: addresses (``http://host:port``) of the query servers of other hosts, by host name.
        nice: priority of the server and its followers, -20 to 19, as of nice(1).
        host: this host's name as the workers report it; ``None`` takes the system's.

    Raises:
        ConfigurationError: the address cannot be listened on, the token cannot be read, or the priority is not allowed.
    """
    _set_priority(nice)
    token_path = token_file or run_directory / TOKEN_FILE
    token = read_token(token_path) if token_file is not None else new_token(token_path, QUERY_TOKEN_VARIABLE)
    catalog = Catalog(topology, config.application_id)
    statuses = StatusFollower(
        config.bootstrap_servers, config.application_id, client_settings=config.client_settings("admin.")
    )
    followers = Followers(
        Follow(state_dir=config.state_dir, application_id=config.application_id, stores=catalog.queryable),
        freshness_ms=freshness_ms,
    )
    known = dict(peers or {})
    service = QueryService(
        config.application_id, catalog, followers, lambda: statuses.status, peer=known.get, host=host
    )
    path = run_directory / CONTROL_FILE

    def started() -> None:
        control.write(path)
        _log.info("query server answers", application=config.application_id, address=server.address)

    server = QueryServer(address, token, service, followers, statuses, on_started=started)
    process = ProcessIdentity.current()
    control = ControlFile(
        pid=process.pid, start_time=process.start_time, address=server.address, token_file=str(token_path.absolute())
    )
    try:
        server.run()
    finally:
        control.remove_own(path)


def _set_priority(nice: int) -> None:
    # Before there are threads and processes, which take it over.
    if nice == 0:
        return
    try:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    except PermissionError as error:
        raise ConfigurationError(
            f"The query server may not take the priority {nice}.",
            remedy="give it CAP_SYS_NICE or a limit (ulimit -e), or start the application under `nice -n 10` instead",
        ) from error
