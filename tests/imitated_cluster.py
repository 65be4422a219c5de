"""librdkafka's own imitation of a Kafka cluster, in this process: for answers that a real broker gives seldom."""

from __future__ import annotations

import ctypes

from millrace.kafka.columns.c_interface import PRODUCER, librdkafka, new_client

FETCH = 1
"""Kafka's number of a fetch request."""


class ImitatedCluster:
    """One broker, whose next answers can be errors."""

    def __init__(self) -> None:
        self._library = librdkafka()
        self._client = new_client(self._library, PRODUCER, {"test.mock.num.brokers": 1}, events=0)
        self._library.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p
        self._library.rd_kafka_handle_mock_cluster.argtypes = [ctypes.c_void_p]
        self._cluster = ctypes.c_void_p(self._library.rd_kafka_handle_mock_cluster(self._client))
        self._library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        self.bootstrap_servers = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def answer_fetches_with(self, code: int, *, times: int) -> None:
        codes = (ctypes.c_int * times)(*[code] * times)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, ctypes.c_int16(FETCH), ctypes.c_size_t(times), codes
        )

    def close(self) -> None:
        self._library.rd_kafka_destroy_flags(self._client, 0)
