from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from millrace.config import PASSED_ON_PREFIXES, StreamsConfig
from millrace.metrics import EXPORTED_METRICS, METRICS, STANDBY_METRICS

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(
    ("module", "page"),
    [("millrace.metrics.reference", "metrics.md"), ("millrace.config_reference", "configuration.md")],
)
def test_the_committed_page_equals_the_generated_one(module: str, page: str) -> None:
    generated = subprocess.run([sys.executable, "-m", module], capture_output=True, check=True, text=True).stdout
    assert (DOCS / page).read_text() == generated, f"run: python -m {module} > docs/{page}"


def test_the_pages_list_every_metric_and_every_setting() -> None:
    metrics = (DOCS / "metrics.md").read_text()
    assert all(f"| `{metric.name}` |" in metrics for metric in METRICS + STANDBY_METRICS + EXPORTED_METRICS)
    configuration = (DOCS / "configuration.md").read_text()
    keys = {name.replace("_", ".") for name in StreamsConfig.model_fields if name != "passed_on"}
    assert all(f"| `{key}` |" in configuration for key in keys)
    assert all(f"`{prefix}`" in configuration for prefix in PASSED_ON_PREFIXES)
