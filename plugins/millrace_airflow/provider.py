"""What Airflow must know of this package: the entry point ``apache_airflow_provider``."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

_NAME = "Millrace"


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata, with the form of its connection type."""
    return {
        "package-name": "millrace",
        "name": _NAME,
        "description": "Applications of Kafka Streams' kind that run on Spark: deployed, supervised and operated.",
        "versions": [version("millrace")],
        "integrations": [{"integration-name": _NAME, "tags": ["software"]}],
        "hooks": [{"integration-name": _NAME, "python-modules": ["millrace_airflow.hooks.millrace"]}],
        "operators": [{"integration-name": _NAME, "python-modules": ["millrace_airflow.operators"]}],
        "sensors": [{"integration-name": _NAME, "python-modules": ["millrace_airflow.sensors.stream"]}],
        "triggers": [
            {
                "integration-name": _NAME,
                "python-modules": ["millrace_airflow.triggers.supervise", "millrace_airflow.triggers.condition"],
            }
        ],
        "notifications": ["millrace_airflow.notifications.MillraceNotifier"],
        "asset-uris": [{"schemes": ["millrace"], "handler": None}],
        "connection-types": [
            {
                "connection-type": "millrace",
                "hook-class-name": "millrace_airflow.hooks.millrace.MillraceHook",
                "hook-name": _NAME,
                "conn-fields": {
                    "home": {
                        "label": "Directory of the installation",
                        "schema": {"type": ["string", "null"]},
                        "description": "As in MILLRACE_HOME; empty takes that of the Airflow process.",
                    },
                    "config_dir": {
                        "label": "Directory of the specifications",
                        "schema": {"type": ["string", "null"]},
                        "description": "As in MILLRACE_CONFIG_DIR; empty takes that of the Airflow process.",
                    },
                },
                "ui-field-behaviour": {
                    "hidden-fields": ["host", "schema", "login", "password", "port", "extra"],
                    "relabeling": {},
                    "placeholders": {"home": "/srv/millrace", "config_dir": "/srv/millrace/config/apps"},
                },
            }
        ],
    }
