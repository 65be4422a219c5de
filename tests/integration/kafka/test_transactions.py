from __future__ import annotations

import numpy as np
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from millrace.kafka.transactions import list_transactions, oldest_open_s


def test_the_broker_tells_which_transactions_are_open_committed_and_aborted_and_how_old_the_oldest_is(
    bootstrap_servers: str, make_topic, unique: str, open_producer
) -> None:
    topic = make_topic("out")
    producers = {name: open_producer(f"{unique}-{name}") for name in ("hung", "committed", "aborted")}
    for producer in producers.values():
        producer.begin()
        producer.send(topic, [b"k"], [b"v"], np.array([1], dtype=np.int64), partition=0)
        producer.flush()
    producers["committed"].commit({(topic, 0): (0, "")}, unique)
    producers["aborted"].abort()
    open_producer(f"{unique}-idle")

    # The broker completes a decided transaction once its markers are written, which is a moment later.
    attempts = Retrying(
        retry=retry_if_result(lambda states: any(state.startswith("Prepare") for state in states.values())),
        stop=stop_after_delay(60),
        wait=wait_fixed(0.1),
    )
    everything = attempts(lambda: _of(unique, list_transactions(bootstrap_servers)))
    assert everything == {
        "hung": "Ongoing",
        "committed": "CompleteCommit",
        "aborted": "CompleteAbort",
        "idle": "Empty",
    }
    ids = [f"{unique}-{name}" for name in producers]
    assert oldest_open_s(bootstrap_servers, ids, least_s=0.001) > 0.001
    assert oldest_open_s(bootstrap_servers, ids, least_s=3600) == 0
    assert oldest_open_s(bootstrap_servers, ids[1:], least_s=0.001) == 0


def _of(prefix: str, states: dict[str, str]) -> dict[str, str]:
    start = f"{prefix}-"
    return {name.removeprefix(start): state for name, state in states.items() if name.startswith(start)}
