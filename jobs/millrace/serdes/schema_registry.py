"""A schema registry with Confluent's API, asked once per schema and process."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar

import httpx
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from millrace.errors import ConfigurationError, SchemaRegistryUnavailableError, SerializationError
from millrace.serdes.avro_codec import AvroCodec
from millrace.urls import without_login

CLIENT_DEFAULTS: dict[str, Any] = {
    # Without one a request that gets no answer would hold the task up for ever.
    "timeout": 10,
    "max.retries": 3,
    "retries.wait.ms": 200,
    "retries.max.wait.ms": 2_000,
}
"""Settings of the client that differ from its own defaults."""

UNKNOWN_ID_RETRY_S = 30.0
"""How long an unknown id stays unknown without another request: a topic may be full of them."""

_INCOMPATIBLE = 409
_NOT_FOUND = 404
_UNPROCESSABLE = 422
_REFUSED = (401, 403)
_Answer = TypeVar("_Answer")


@cache
def registry_at(url: str, settings: tuple[tuple[str, Any], ...]) -> SchemaRegistry:
    """This process's access to a registry; made at the first call.

    Raises:
        ConfigurationError: the client refuses the address or a setting.
    """
    return SchemaRegistry(url, settings)


class SchemaRegistry:
    """Ids of schemas and schemas of ids.

    Args:
        url: ``http(s)://host:port/path``, or several with commas between them.
        settings: of confluent-kafka's ``SchemaRegistryClient``.

    Raises:
        ConfigurationError: the client refuses the address or a setting.
    """

    def __init__(self, url: str, settings: tuple[tuple[str, Any], ...]) -> None:
        self._url = without_login(url)
        try:
            self._client = SchemaRegistryClient({**CLIENT_DEFAULTS, **dict(settings), "url": url})
        except (ValueError, TypeError, OSError) as error:
            raise ConfigurationError(
                f"The client of the schema registry {self._url} cannot be made: {error}.",
                remedy="correct registry_url or registry_settings",
            ) from error
        self._ids: dict[tuple[str, str, bool], int] = {}
        self._codecs: dict[int, AvroCodec] = {}
        self._unknown: dict[int, float] = {}

    def id_of(self, subject: str, text: str, *, register: bool) -> int:
        """Returns the id of an Avro schema under a subject.

        Args:
            subject: the subject.
            text: the schema, JSON.
            register: whether to register a schema that the subject does not have.

        Raises:
            ConfigurationError: the subject does not have it and it is not to be registered, or the registry refuses
                it: incompatible with the subject's versions, invalid, or not allowed.
            SchemaRegistryUnavailableError: the registry does not answer.
        """
        known = self._ids.get((subject, text, register))
        if known is None:
            known = self._asked_id(subject, text, register)
            self._ids[(subject, text, register)] = known
        return known

    def codec_of(self, schema_id: int) -> AvroCodec:
        """Returns the schema that has an id.

        Raises:
            SerializationError: the registry does not know the id, or it is of no Avro schema.
            ConfigurationError: the registry refuses the request.
            SchemaRegistryUnavailableError: the registry does not answer.
        """
        codec = self._codecs.get(schema_id)
        if codec is None:
            if self._unknown.get(schema_id, 0.0) > time.monotonic():
                raise self._unknown_id(schema_id)
            codec = self._codecs[schema_id] = self._asked_codec(schema_id)
        return codec

    def _asked_id(self, subject: str, text: str, register: bool) -> int:
        schema = Schema(text, "AVRO")
        try:
            return self._registered(subject, schema) if register else self._looked_up(subject, schema)
        except SchemaRegistryError as error:
            if error.http_status_code == _INCOMPATIBLE:
                raise ConfigurationError(
                    f"The schema registry {self._url} refuses the Avro schema under the subject {subject!r}: it is "
                    f"not compatible with the versions there: {error}.",
                    remedy="evolve the schema compatibly (new fields with defaults), use another subject, or change "
                    "the subject's compatibility",
                ) from error
            if error.http_status_code == _NOT_FOUND and not register:
                raise ConfigurationError(
                    f"The schema registry {self._url} does not have the Avro schema under the subject {subject!r}: "
                    f"{error}.",
                    remedy="register it there, or let the serde do so (auto_register=True)",
                ) from error
            if error.http_status_code == _UNPROCESSABLE:
                raise ConfigurationError(
                    f"The schema registry {self._url} takes the schema for {subject!r} for invalid: {error}.",
                    remedy="correct the schema",
                ) from error
            raise self._refused(error) from error

    def _registered(self, subject: str, schema: Schema) -> int:
        """Registers a schema, or finds it: of those who register at once a registry may refuse all but the first."""
        register = partial(self._client.register_schema, subject, schema)
        try:
            return self._ask(register)
        except SchemaRegistryError as error:
            if error.http_status_code != _INCOMPATIBLE:
                raise
        try:
            return self._looked_up(subject, schema)
        except SchemaRegistryError as error:
            if error.http_status_code != _NOT_FOUND:
                raise
        # The first one was another schema. Where this one is not compatible the registry says so again.
        return self._ask(register)

    def _looked_up(self, subject: str, schema: Schema) -> int:
        found = self._ask(lambda: self._client.lookup_schema(subject, schema)).schema_id
        assert found is not None
        return found

    def _asked_codec(self, schema_id: int) -> AvroCodec:
        try:
            schema = self._ask(lambda: self._client.get_schema(schema_id))
            texts = self._with_references(schema)
        except SchemaRegistryError as error:
            if error.http_status_code != _NOT_FOUND:
                raise self._refused(error) from error
            self._unknown[schema_id] = time.monotonic() + UNKNOWN_ID_RETRY_S
            raise self._unknown_id(schema_id) from error
        if schema.schema_type not in (None, "AVRO"):
            raise SerializationError(
                f"The schema {schema_id} in the registry {self._url} is of type {schema.schema_type}, not AVRO.",
                remedy="choose the serde of the topic's format",
            )
        try:
            return AvroCodec(texts[-1], texts[:-1], strict=False)
        except ConfigurationError as error:
            raise SerializationError(
                f"The schema {schema_id} in the registry {self._url} cannot be used: {error.message}",
                remedy="correct the producer, or let the deserialization handler continue",
            ) from error

    def _with_references(self, schema: Schema) -> list[str]:
        """The schema's text, after those of the schemas that it refers to."""
        texts: list[str] = []
        for reference in schema.references or ():
            subject, version = reference.subject, reference.version
            assert subject is not None
            assert version is not None
            target = self._ask(partial(self._client.get_version, subject, version)).schema
            texts += [text for text in self._with_references(target) if text not in texts]
        assert schema.schema_str is not None
        return [*texts, schema.schema_str]

    def _ask(self, request: Callable[[], _Answer]) -> _Answer:
        try:
            return request()
        except httpx.HTTPError as error:
            raise SchemaRegistryUnavailableError(
                f"The schema registry {self._url} does not answer: {type(error).__name__}: {error}.",
                remedy="check that it runs and that registry_url is right; the batch is tried again",
            ) from error
        except SchemaRegistryError as error:
            if error.http_status_code < 500 and error.http_status_code != 429:
                raise
            raise SchemaRegistryUnavailableError(
                f"The schema registry {self._url} has trouble: {error}.",
                remedy="look into its log; the batch is tried again",
            ) from error

    def _unknown_id(self, schema_id: int) -> SerializationError:
        return SerializationError(
            f"The schema registry {self._url} does not know the schema id {schema_id}.",
            remedy="check that registry_url is the producer's registry; or let the deserialization handler continue",
        )

    def _refused(self, error: SchemaRegistryError) -> ConfigurationError:
        remedy = "check the address of the registry's API in registry_url"
        if error.http_status_code in _REFUSED:
            remedy = "give registry_settings what the registry asks for, for example basic.auth.user.info"
        return ConfigurationError(f"The schema registry {self._url} refuses the request: {error}.", remedy=remedy)
