"""One probe of all applications, or at one, for whoever does not keep looking."""

from __future__ import annotations

from millrace.insight.overview.model import ApplicationDetails, ApplicationOverview
from millrace.insight.overview.watch import OverviewWatch, WatchOptions
from millrace.install.application import Application
from millrace.install.home import Home


def applications_overview(home: Home, *, timeout_s: float = 10.0) -> tuple[ApplicationOverview, ...]:
    """All applications of an installation by name. Rates are those since the drivers started, and no trend is known.

    Args:
        home: the installation.
        timeout_s: longest wait; an application that has not answered by then is there, and says so.
    """
    watch = OverviewWatch(home, WatchOptions(first_probe_s=timeout_s))
    try:
        return watch.applications()
    finally:
        watch.close()


def application_overview(application: Application, *, timeout_s: float = 10.0) -> ApplicationDetails:
    """One application, as :func:`applications_overview`.

    Args:
        application: which.
        timeout_s: longest wait.

    Raises:
        OperationError: there is none of that name.
    """
    watch = OverviewWatch(application.home, WatchOptions(first_probe_s=timeout_s))
    try:
        return watch.application(application.name)
    finally:
        watch.close()
