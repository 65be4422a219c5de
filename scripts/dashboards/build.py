"""Dashboards as Grafana's JSON, by its foundation SDK."""

from __future__ import annotations

from grafana_foundation_sdk.builders import common, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as sdk
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueGraphMode,
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    Threshold,
    ThresholdsMode,
    VariableOption,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from scripts.dashboards.model import Dashboard, Kind, Panel, Query

_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_HEIGHTS = {Kind.NUMBER: 4, Kind.LINES: 8, Kind.STACKED: 8, Kind.TABLE: 8}
AnyPanel = timeseries.Panel | stat.Panel | table.Panel


def to_json(dashboard: Dashboard) -> str:
    """The dashboard as Grafana imports it; the same for the same code."""
    builder = (
        sdk.Dashboard(f"Millrace / {dashboard.title}")
        .uid(f"millrace-{dashboard.uid}")
        .description(dashboard.text)
        .tags(["millrace"])
        .refresh("30s")
        .time("now-3h", "now")
        .timezone("browser")
        .readonly()
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(sdk.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(
            # Where docs/ is served; the links to runbooks begin with it.
            sdk.TextBoxVariable("docs").label("Docs").default_value("http://127.0.0.1:8000")
        )
        .link(
            sdk.DashboardLink("Millrace")
            .type(DashboardLinkType.DASHBOARDS)
            .tags(["millrace"])
            .as_dropdown(True)
            .include_vars(True)
            .keep_time(True)
        )
    )
    if dashboard.by_application:
        builder = builder.with_variable(
            _choice("application", "label_values(millrace_application_wanted, application_id)")
        )
    if dashboard.by_subtopology:
        query = 'label_values(millrace_stream_task_process_total{application_id=~"$application"}, subtopology)'
        builder = builder.with_variable(_choice("subtopology", query))
    for panel in dashboard.panels:
        builder = builder.with_panel(_panel(panel))
    return JSONEncoder(sort_keys=True, indent=2).encode(builder.build()) + "\n"


def _choice(name: str, query: str) -> sdk.QueryVariable:
    everything = VariableOption(text="All", value="$__all", selected=True)
    return (
        sdk.QueryVariable(name)
        .label(name.capitalize())
        .datasource(_SOURCE)
        .query(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .include_all(True)
        .all_value(".*")
        .multi(True)
        .current(everything)
    )


def _panel(panel: Panel) -> AnyPanel:
    made: AnyPanel
    if panel.kind is Kind.NUMBER:
        made = stat.Panel().graph_mode(BigValueGraphMode.NONE)
    elif panel.kind is Kind.TABLE:
        made = table.Panel()
    else:
        made = _lines(panel)
    made = (
        made.title(panel.title)
        .description(panel.text)
        .datasource(_SOURCE)
        .unit(panel.unit)
        .span(panel.width)
        .height(_HEIGHTS[panel.kind])
    )
    if panel.red_above is not None or panel.red_below is not None:
        made = made.thresholds(_thresholds(panel))
    if panel.alert:
        link = (
            sdk.DashboardLink(f"Runbook: {panel.alert}")
            .type(DashboardLinkType.LINK)
            .url(f"${{docs}}/runbooks/{panel.alert}/")
            .target_blank(True)
        )
        made = made.links([link])
    for number, query in enumerate(panel.queries):
        made = made.with_target(_target(panel, query, chr(ord("A") + number)))
    return made


def _lines(panel: Panel) -> timeseries.Panel:
    legend = (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(True)
    )
    made = (
        timeseries.Panel()
        .legend(legend)
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
        .show_points(VisibilityMode.NEVER)
        .line_width(1)
        .fill_opacity(0)
        .min(0)
    )
    if panel.kind is Kind.STACKED:
        made = made.fill_opacity(25).stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    return made


def _thresholds(panel: Panel) -> sdk.ThresholdsConfig:
    if panel.red_above is not None:
        steps = [Threshold(value=None, color="green"), Threshold(value=panel.red_above, color="red")]
    else:
        steps = [Threshold(value=None, color="red"), Threshold(value=panel.red_below, color="green")]
    return sdk.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


def _target(panel: Panel, query: Query, ref_id: str) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(ref_id)
    if panel.kind is Kind.TABLE:
        return target.instant().format(PromQueryFormat.TABLE)
    return target.instant() if panel.kind is Kind.NUMBER else target.range()
