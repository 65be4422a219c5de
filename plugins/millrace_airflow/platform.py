"""The platform's DAGs in the DAG folder of a project of one's own.

A file there says::

    from millrace_airflow.platform import load_dags

    load_dags()

The DAGs are Airflow's as if they stood in that file: it shows them with its path, and parses and runs them from it.
"""

from __future__ import annotations

import runpy
from pathlib import Path

from millrace.errors import ConfigurationError

_IN_THE_WHEEL = Path(__file__).with_name("platform_dags")
_IN_THE_CHECKOUT = Path(__file__).resolve().parents[2] / "dags"


def dag_files() -> tuple[Path, ...]:
    """The files of the platform's DAGs, sorted.

    Raises:
        ConfigurationError: there are none, since the installation is not whole.
    """
    directory = _IN_THE_WHEEL if _IN_THE_WHEEL.is_dir() else _IN_THE_CHECKOUT
    files = tuple(sorted(directory.glob("*.py")))
    if not files:
        raise ConfigurationError(f"There are no DAG files in {directory}.", remedy="install Millrace again")
    return files


def load_dags() -> None:
    """Load the platform's DAGs, and one that supervises each application of ``MILLRACE_CONFIG_DIR``.

    A DAG registers itself with the file that Airflow is reading when its ``with`` block ends.

    Raises:
        ConfigurationError: the installation is not whole.
    """
    for file in dag_files():
        runpy.run_path(str(file))
