"""The handle of one application for operations: its specifications, its record, and how its cluster is reached."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from millrace.config import StreamsConfig
from millrace.errors import MillraceError
from millrace.install.home import ApplicationDirectory, Home
from millrace.install.record import JobRecord, read_record
from millrace.install.which_spec import ChosenSpec, Specifications, Use

if TYPE_CHECKING:
    from millrace.driver.status import ApplicationStatus
    from millrace.kafka.admin import KafkaAdmin


@dataclass(frozen=True)
class Application:
    """An application of an installation, deployed or not.

    It holds two names and nothing of what they stand for: every property reads its files again, since operations of
    other processes change them.

    Args:
        home: the installation.
        name: the application's name.
    """

    home: Home
    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def directory(self) -> ApplicationDirectory:
        """Its files under ``run/<name>``; the directory need not exist yet."""
        return self.home.application(self.name)

    @property
    def spec_path(self) -> Path:
        """The file with its desired state."""
        return self.home.spec_path(self.name)

    @property
    def specifications(self) -> Specifications:
        """Both specifications as they are now, for those to whom the choice between them matters."""
        return Specifications.read(self.directory, self.spec_path)

    def specification(self, use: Use, *, remedy: str = "") -> ChosenSpec:
        """Returns the specification that counts for ``use``.

        Args:
            use: what it is wanted for.
            remedy: what to do where there is none; by default what the file's own error says.

        Raises:
            ConfigurationError: there is no valid one.
            OperationError: the record cannot be understood.
        """
        return self.specifications.chosen(use, remedy=remedy)

    @property
    def launched(self) -> ChosenSpec:
        """The specification of the last launch or, without a launch here, its file: see :attr:`Use.RUNNING`.

        Raises:
            ConfigurationError: there is no valid one.
        """
        return self.specification(Use.RUNNING)

    @property
    def desired(self) -> ChosenSpec:
        """The specification in ``config/apps``, with no fallback: see :attr:`Use.DEPLOYMENT`.

        Raises:
            ConfigurationError: the file is missing or invalid.
        """
        return self.specification(Use.DEPLOYMENT)

    @property
    def following(self) -> ChosenSpec:
        """The specification that supervision would launch: see :attr:`Use.NEXT_START`.

        Raises:
            ConfigurationError: there is no valid one.
            OperationError: the record cannot be understood.
        """
        return self.specification(Use.NEXT_START)

    def difference(self, use: Use) -> str:
        """Returns one line that says how desired and launched specification differ, and by which of them ``use`` goes.

        Empty where they do not differ, or where there is none. For what is printed beside a result; an operation that
        cannot be done without one says why itself.
        """
        try:
            return self.specification(use).note
        except MillraceError:
            return ""

    @property
    def record(self) -> JobRecord | None:
        """The record of what was launched, by whom, and whether it should run; none if it was never deployed here.

        Raises:
            OperationError: the record is there and cannot be understood.
        """
        return read_record(self.directory)

    @property
    def config(self) -> StreamsConfig:
        """The configuration that it was launched with, as :attr:`launched` chooses it.

        Raises:
            ConfigurationError: there is no valid specification.
        """
        return self.launched.spec.streams_config()

    def admin(self) -> KafkaAdmin:
        """Returns an administrator of the cluster that it was launched on.

        Raises:
            ConfigurationError: there is no valid specification.
        """
        # It brings Kafka's client, which most of what holds an application does not need.
        from millrace.install.connection import admin_of

        return admin_of(self.config)

    def status(self) -> ApplicationStatus | None:
        """Returns what its driver published last to the status topic of that cluster.

        It is none where there is no record of it.

        Raises:
            ConfigurationError: there is no valid specification.
            BrokerUnavailableError: no broker answers.
        """
        from millrace.install.connection import Connection

        config = self.config
        return Connection.of(config).statuses().get(config.application_id)
