"""The commands of ``millrace topics``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from millrace.cli.console import out
from millrace.cli.environment import bootstrap_servers

if TYPE_CHECKING:
    from concurrent.futures import Future

    from confluent_kafka.admin import AdminClient

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="The topics of a broker.",
    epilog="Example: [bold]millrace topics list[/]",
)

Servers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers", help="host:port. Default: $MILLRACE_BOOTSTRAP_SERVERS, or the embedded broker."
    ),
]
Login = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="MILLRACE_COMMAND_CONFIG",
        help="Properties file with the login: security.*, sasl.*, ssl.*; secrets may be references.",
        dir_okay=False,
    ),
]
_LIMIT_S = 30.0


@app.command("list", epilog="Example: [bold]millrace topics list --internal[/]")
def list_topics(
    servers: Servers = None,
    login: Login = None,
    internal: Annotated[bool, typer.Option("--internal", help="Also those that begin with two underscores.")] = False,
) -> None:
    """List the topics with their partitions and replicas."""
    broker = _Broker(bootstrap_servers(servers), login)
    table = _table("topic", right=("partitions", "replicas"))
    for name, topic in sorted(broker.metadata().topics.items()):
        if internal or not name.startswith("__"):
            replicas = max((len(partition.replicas) for partition in topic.partitions.values()), default=0)
            table.add_row(name, str(len(topic.partitions)), str(replicas))
    out.print(table, soft_wrap=False)


@app.command(epilog="Example: [bold]millrace topics create payments --partitions 4 --config retention.ms=-1[/]")
def create(
    name: Annotated[str, typer.Argument(help="Name of the topic.")],
    *,
    servers: Servers = None,
    login: Login = None,
    partitions: Annotated[int, typer.Option(min=1, help="Number of partitions.")] = 1,
    replication_factor: Annotated[int, typer.Option(help="-1 takes the broker's default.")] = -1,
    config: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A topic setting; repeatable.")] = None,
) -> None:
    """Create a topic."""
    from confluent_kafka.cimpl import NewTopic

    settings = dict(_setting(text) for text in config or [])
    broker = _Broker(bootstrap_servers(servers), login)
    new = NewTopic(name, num_partitions=partitions, replication_factor=replication_factor, config=settings)
    broker.result(broker.admin.create_topics([new], operation_timeout=_LIMIT_S)[name], doing=f"creating topic {name}")
    out.print(f"created {name} with {partitions} partitions", markup=False)


@app.command(epilog="Example: [bold]millrace topics describe payments[/]")
def describe(
    name: Annotated[str, typer.Argument(help="Name of the topic.")], servers: Servers = None, login: Login = None
) -> None:
    """Show a topic's partitions with their offsets, and the settings that were set for it."""
    from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

    from millrace.kafka.admin import KafkaAdmin
    from millrace.kafka.offsets import End, begin_offsets, end_offsets

    broker = _Broker(bootstrap_servers(servers), login)
    topic = broker.topic(name)
    topic_partitions = [(name, number) for number in sorted(topic.partitions)]
    admin = KafkaAdmin(broker.servers, timeout_s=_LIMIT_S)
    first, last = begin_offsets(admin, topic_partitions), end_offsets(admin, topic_partitions, End.HIGH_WATERMARK)
    table = _table("partition", "leader", "replicas", "in sync", right=("first offset", "end offset", "records"))
    for number, partition in sorted(topic.partitions.items()):
        table.add_row(
            str(number),
            str(partition.leader),
            ",".join(map(str, partition.replicas)),
            ",".join(map(str, partition.isrs)),
            str(first[name, number]),
            str(last[name, number]),
            str(last[name, number] - first[name, number]),
        )
    out.print(table, soft_wrap=False)
    resource = ConfigResource(ResourceType.TOPIC, name)
    settings = broker.result(
        broker.admin.describe_configs([resource], request_timeout=_LIMIT_S)[resource],
        doing=f"reading settings of {name}",
    )
    for key, entry in sorted(settings.items()):
        if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value:
            out.print(f"{key}={entry.value}", markup=False)


class _Broker:
    """An admin client whose errors name the broker and what was tried."""

    def __init__(self, servers: str, login: Path | None) -> None:
        from confluent_kafka.admin import AdminClient

        from millrace.install.named_cluster import read_login
        from millrace.kafka.clients import admin_settings

        self.servers = servers
        self.admin: AdminClient = AdminClient(admin_settings(servers, read_login(login)))

    def metadata(self) -> Any:
        """Brokers and topics."""
        from confluent_kafka import KafkaException

        from millrace.kafka.clients import kafka_error, translate

        try:
            return self.admin.list_topics(timeout=10)
        except KafkaException as error:
            raise translate(kafka_error(error), doing="listing topics", bootstrap_servers=self.servers) from error

    def topic(self, name: str) -> Any:
        """One topic of the metadata."""
        import difflib

        from millrace.errors import OperationError

        topics = self.metadata().topics
        if name in topics:
            return topics[name]
        near = difflib.get_close_matches(name, topics, n=1, cutoff=0.0)
        raise OperationError(
            f"There is no topic {name!r} at {self.servers}.",
            remedy=f"create it, or name another; the nearest is {near[0]!r}" if near else "create it",
        )

    def result(self, future: Future[Any], *, doing: str) -> Any:
        """What came of a request."""
        from confluent_kafka import KafkaError, KafkaException

        from millrace.errors import OperationError
        from millrace.kafka.clients import kafka_error, translate

        try:
            return future.result(timeout=2 * _LIMIT_S)
        except KafkaException as error:
            problem = kafka_error(error)
            if problem.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                raise OperationError(
                    f"{problem.str()} at {self.servers}", remedy="see it with `millrace topics describe`"
                ) from error
            raise translate(problem, doing=doing, bootstrap_servers=self.servers) from error


def _table(*left: str, right: tuple[str, ...] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in left:
        table.add_column(header, overflow="fold")
    for header in right:
        table.add_column(header, justify="right")
    return table


def _setting(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise typer.BadParameter(f"{text!r} is not KEY=VALUE.", param_hint="--config")
    return key, value
