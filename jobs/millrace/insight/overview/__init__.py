"""What is to be seen of applications, as data for people's pages: never slow, and it never raises for a bad one."""

from millrace.insight.overview.graph import Graph, GraphNode, GraphPart, NodeKind, PartState
from millrace.insight.overview.model import (
    ApplicationDetails,
    ApplicationOverview,
    JournalEntry,
    LagPoint,
    OperationView,
    Savepoints,
    SavepointView,
    StoreView,
    TaskView,
    Trend,
)
from millrace.insight.overview.single import application_overview, applications_overview
from millrace.insight.overview.watch import OverviewWatch, WatchOptions

__all__ = [
    "ApplicationDetails",
    "ApplicationOverview",
    "Graph",
    "GraphNode",
    "GraphPart",
    "JournalEntry",
    "LagPoint",
    "NodeKind",
    "OperationView",
    "OverviewWatch",
    "PartState",
    "SavepointView",
    "Savepoints",
    "StoreView",
    "TaskView",
    "Trend",
    "WatchOptions",
    "application_overview",
    "applications_overview",
]
