"""Sensors that wait for the state of a stream."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, Context

from millrace.errors import MillraceError
from millrace.launch import Observation
from millrace_airflow.conditions import Condition
from millrace_airflow.hooks.millrace import MillraceHook
from millrace_airflow.triggers.condition import ConditionTrigger


class StreamReadySensor(BaseSensorOperator):  # type: ignore[misc]
    """Waits until an application is healthy: it answers, its stores are restored, and it works on what arrives.

    Args:
        application: name of the application; templated.
        for_s: for how long that must have held, seconds.
        deferrable: wait in the triggerer, without a worker slot; otherwise the sensor polls as ``mode`` says.
        millrace_conn_id: see :class:`~millrace_airflow.hooks.millrace.MillraceHook`.
        kwargs: ``timeout`` and ``poke_interval`` in seconds, ``soft_fail`` and the others of a sensor.
    """

    template_fields: Sequence[str] = ("application",)
    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        application: str,
        for_s: float = 0.0,
        deferrable: bool = True,
        poke_interval: float = 5.0,
        millrace_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.application = application
        self.for_s = for_s
        self.deferrable = deferrable
        self.millrace_conn_id = millrace_conn_id
        self._held_since: float | None = None

    @property
    def condition(self) -> Condition:
        """What is waited for."""
        return Condition(for_s=self.for_s)

    def execute(self, context: Context) -> Any:
        """Wait."""
        if not self.deferrable:
            return super().execute(context)
        # What holds already is not deferred: a trigger fires after some seconds only.
        observation, why_not = self._probe()
        if observation is not None and not why_not and not self.for_s:
            return self.resume(context, observation.summary())
        home = MillraceHook(self.millrace_conn_id).home
        self.defer(
            trigger=ConditionTrigger(
                home=str(home.root),
                specs=str(home.specs),
                application=self.application,
                condition=self.condition.serialize(),
                poll_interval_s=self.poke_interval,
            ),
            method_name="resume",
            timeout=timedelta(seconds=self.timeout),
        )
        raise AssertionError("defer does not return")

    def resume(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """It holds: what was seen is returned."""
        self.log.info("%s: %s, lag %s", self.application, event["text"], event["lag"])
        return dict(event)

    def poke(self, context: Context) -> bool:  # noqa: ARG002
        """One look, where the sensor is not deferred."""
        _, why_not = self._probe()
        if why_not:
            self.log.info("%s: %s", self.application, why_not)
        self._held_since = None if why_not else self._held_since or time.monotonic()
        return self._held_since is not None and time.monotonic() - self._held_since >= self.condition.for_s

    def _probe(self) -> tuple[Observation | None, str]:
        """What is seen now, and why that is not what is waited for; a record may be unreadable at one look only."""
        try:
            observation = MillraceHook(self.millrace_conn_id).observe(self.application)
        except MillraceError as error:
            return None, str(error)
        return observation, self.condition.why_not(observation)


class LagBelowSensor(StreamReadySensor):
    """Waits until an application is healthy and not further behind than a number of records.

    Args:
        max_lag: most records behind, over all partitions.
        kwargs: see :class:`StreamReadySensor`.
    """

    def __init__(self, *, max_lag: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_lag = max_lag

    @property
    def condition(self) -> Condition:
        """What is waited for."""
        return Condition(max_lag=self.max_lag, for_s=self.for_s)
