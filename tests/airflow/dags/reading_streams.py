"""DAGs as users write them: one that waits for a stream, one that is scheduled on its progress."""

from __future__ import annotations

from airflow.sdk import DAG, task

from millrace_airflow.assets import stream_asset
from millrace_airflow.sensors import LagBelowSensor, StreamReadySensor

APPLICATION, TOPIC = "orders", "order-totals"

with DAG(dag_id="waits_for_stream", schedule=None):
    ready = StreamReadySensor(task_id="ready", application=APPLICATION, poke_interval=0.5, timeout=480)
    caught_up = LagBelowSensor(
        task_id="caught_up", application=APPLICATION, max_lag=0, for_s=1, poke_interval=0.5, timeout=480
    )
    looked = StreamReadySensor(
        task_id="looked", application=APPLICATION, deferrable=False, poke_interval=0.5, timeout=480
    )
    [ready, looked] >> caught_up

with DAG(dag_id="waits_in_vain", schedule=None):
    StreamReadySensor(task_id="never", application="never-deployed", poke_interval=0.5, timeout=3)

with DAG(dag_id="reads_what_came", schedule=[stream_asset(APPLICATION, TOPIC)], catchup=False):

    @task
    def read(triggering_asset_events: object = None) -> list[dict[str, object]]:
        """The extras of the events that started this run."""
        assert triggering_asset_events is not None
        return [event.extra for event in triggering_asset_events[stream_asset(APPLICATION, TOPIC)]]  # type: ignore[index]

    read()
