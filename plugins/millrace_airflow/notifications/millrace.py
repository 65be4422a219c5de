"""The notifier: tells people of failed tasks, by webhook and mail where Airflow has connections for them."""

from __future__ import annotations

import html
from typing import Any

import httpx
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import BaseHook, BaseNotifier, Connection, Context, Variable
from airflow.sdk.exceptions import AirflowNotFoundException

from millrace.errors import MillraceError

WEBHOOK = "millrace_webhook"
MAIL_VARIABLE = "millrace_alert_mail"
_LIMIT_S = 10.0


class MillraceNotifier(BaseNotifier):  # type: ignore[misc]
    """Says which task failed, why, and what to do; for ``on_failure_callback``.

    It posts JSON to the URL of the connection ``millrace_webhook`` (``host``, perhaps with ``schema`` and ``port``; its
    password goes as a bearer token), and mails through Airflow's SMTP connection to the addresses, separated by commas,
    in the variable ``millrace_alert_mail``. Where neither is there it only writes to the task's log, and says so. The
    last lines of the log are what happened and what to do in any case.

    Args:
        webhook_conn_id: the connection with the URL.
        smtp_conn_id: the SMTP connection; none takes Airflow's own (``[email] email_conn_id``).
        mail_variable: name of the variable with the addresses.
    """

    def __init__(
        self,
        *,
        webhook_conn_id: str = WEBHOOK,
        smtp_conn_id: str | None = None,
        mail_variable: str = MAIL_VARIABLE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.webhook_conn_id = webhook_conn_id
        self.smtp_conn_id = smtp_conn_id
        self.mail_variable = mail_variable

    def notify(self, context: Context) -> None:
        """Tell it."""
        message = message_of(context)
        problems = []
        told = False
        for channel, send in (("webhook", self._post), ("mail", self._mail)):
            try:
                told |= send(message, context)
            except Exception as error:
                # Whatever one channel raises must not keep the other one quiet; it is logged below.
                problems.append(f"{channel}: {type(error).__name__}: {error}")
        for problem in problems:
            self.log.error("The failure could not be told by %s", problem)
        if not told and not problems:
            self.log.warning(
                "This failure is reported in this log only: there is neither a connection %s nor a variable %s.",
                self.webhook_conn_id,
                self.mail_variable,
            )
        happened, _, advice = message["error"].partition(" What to do: ")
        self.log.error("What happened: %s", happened)
        self.log.error("What to do: %s", advice or "read the log above")

    def _post(self, message: dict[str, Any], _context: Context) -> bool:
        try:
            connection = BaseHook.get_connection(self.webhook_conn_id)
        except AirflowNotFoundException:
            return False
        headers = {"Authorization": f"Bearer {connection.password}"} if connection.password else {}
        answer = httpx.post(url_of(connection), json=message, headers=headers, timeout=_LIMIT_S)
        answer.raise_for_status()
        self.log.info("told by webhook %s", self.webhook_conn_id)
        return True

    def _mail(self, message: dict[str, Any], context: Context) -> bool:
        addresses = str(Variable.get(self.mail_variable, default="") or "")
        recipients = [address.strip() for address in addresses.split(",") if address.strip()]
        if not recipients:
            return False
        body = "".join(f"<p><b>{name}</b>: {html.escape(str(value))}</p>" for name, value in message.items())
        SmtpNotifier(
            to=recipients,
            subject=f"{message['dag_id']}.{message['task_id']} failed",
            # Texts of others are no templates.
            html_content=f"{{% raw %}}{body}{{% endraw %}}",
            smtp_conn_id=self.smtp_conn_id,
        )(context)
        self.log.info("told by mail %s", ", ".join(recipients))
        return True


def message_of(context: Context) -> dict[str, Any]:
    """What is told: a small document."""
    instance = context.get("ti") or context.get("task_instance")
    task = context.get("task") or getattr(instance, "task", None)
    return {
        "dag_id": getattr(instance, "dag_id", ""),
        "task_id": getattr(instance, "task_id", ""),
        "run_id": getattr(instance, "run_id", ""),
        "try_number": getattr(instance, "try_number", 0),
        "application": str(getattr(task, "application", "") or ""),
        "error": _error_text(context.get("exception"))[:4000],
        "log_url": str(getattr(instance, "log_url", "")),
    }


def _error_text(error: object) -> str:
    if isinstance(error, MillraceError):
        return f"{error.message} What to do: {error.remedy}" if error.remedy else error.message
    return str(error or "the task ended without saying why")


def url_of(connection: Connection) -> str:
    """The URL that a connection stands for: its host, completed by schema and port where it is a bare name."""
    host = str(connection.host or "")
    if "://" in host:
        return host
    port = f":{connection.port}" if connection.port else ""
    return f"{connection.schema or 'https'}://{host}{port}"
