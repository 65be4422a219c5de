"""Which applications there are, for DAG files: reading them must be fast and must not fail for one bad file."""

from __future__ import annotations

import structlog

from millrace.errors import ConfigurationError
from millrace.install.home import Home
from millrace.install.spec import ApplicationSpec, SpecFile, load_spec, load_specs

log = structlog.get_logger(__name__)


def applications(home: Home | None = None) -> dict[str, ApplicationSpec]:
    """The valid specifications by name, sorted; what is wrong with the others is logged.

    An application that was deployed keeps its DAG although its new specification is invalid: its last good one stands
    in, as it does for the running job.
    """
    home = home or Home.from_environment()
    found: dict[str, ApplicationSpec] = {}
    files: dict[str, SpecFile | ConfigurationError]
    try:
        files = load_specs(home.specs)
    except ConfigurationError as error:
        # What was deployed goes on, and so do the DAGs that look after it.
        files = dict.fromkeys(home.deployed(), error)
    for name, file in files.items():
        if not isinstance(file, ConfigurationError):
            found[name] = file.spec
            continue
        log.warning("invalid specification", application=name, error=str(file))
        try:
            found[name] = load_spec(home.application(name).spec, name=name)
        except ConfigurationError:
            # Never deployed, so there is nothing to look after.
            continue
    return found
