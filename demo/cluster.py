"""The platform as it is deployed (see docker-compose.yml), on this machine without containers."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import ClassVar

from psycopg.conninfo import conninfo_to_dict

from demo.platform import Platform, Tell
from demo.postgres import running_postgres
from millrace.embedded.cluster import EmbeddedCluster
from millrace.install.launchers.spark_cluster import SparkCluster

LAUNCHER_VARIABLE = "MILLRACE_LAUNCHER"
MASTER_VARIABLE = "MILLRACE_SPARK_MASTER"


@dataclass
class ClusterPlatform(Platform):
    """Three brokers, a Spark master with two workers, and Airflow on PostgreSQL.

    Args:
        running: what runs, in the order in which it was started.
        database: where Airflow keeps its tables, for SQLAlchemy.
        brokers: the three brokers.
    """

    running: ExitStack = field(default_factory=ExitStack)
    database: str = ""
    brokers: EmbeddedCluster | None = None

    name: ClassVar[str] = "platform"
    services: ClassVar[str] = "three brokers, Spark and PostgreSQL"

    def decide_addresses(self, tell: Tell) -> None:
        """Those of the brokers; PostgreSQL, which Airflow needs, runs then."""
        tell("starting PostgreSQL")
        place = conninfo_to_dict(self.running.enter_context(running_postgres(account="airflow")))
        self.database = "postgresql+psycopg://{user}@{host}:{port}/{dbname}".format_map(place)
        self.brokers = EmbeddedCluster(self.home.root / "brokers", home=self.home.root)
        self.bootstrap_servers = self.brokers.bootstrap_servers
        self._start_spark(tell)

    def start_services(self, tell: Tell) -> None:
        """The brokers."""
        assert self.brokers is not None
        self.running.callback(self.brokers.stop)
        self.brokers.start(progress=tell)

    def _start_spark(self, tell: Tell) -> None:
        tell("starting Spark")
        spark = self.running.enter_context(SparkCluster(self.home.root / "spark"))
        # For the specification, as the address of the brokers.
        os.environ |= {LAUNCHER_VARIABLE: "standalone", MASTER_VARIABLE: spark.master}

    def stop_services(self) -> None:
        """All of them, the last one first."""
        self.running.close()

    def airflow_settings(self) -> dict[str, str]:
        """Those of the demo, and the database; the driver of both its kinds of connections is psycopg."""
        return {
            **super().airflow_settings(),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self.database,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": self.database,
        }
