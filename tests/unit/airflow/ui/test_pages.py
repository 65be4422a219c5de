from __future__ import annotations

from html import unescape
from typing import cast

import pytest
import yaml
from fastapi.routing import APIRoute
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from millrace.install.files import append_journal
from millrace.install.home import Home
from millrace_airflow.ui.actions import ACTIONS
from millrace_airflow.ui.forms import Option, fields, read_form
from millrace_airflow.ui.gateway import AirflowRefusedError
from tests.unit.airflow.ui.conftest import APPLICATION, StandInAirflow

PAGE = f"/millrace/applications/{APPLICATION}"
SAME = {"sec-fetch-site": "same-origin"}
EVIL = '"><script>alert(1)</script>'


def test_every_page_wants_a_person_and_has_a_strict_policy(admin: TestClient) -> None:
    for path in ("/", f"/applications/{APPLICATION}", "/static/streams.css", f"/applications/{APPLICATION}/run"):
        answer = admin.get(f"/millrace{path}", headers={"x-person": ""})
        del admin.headers["x-person"]
        nobody = admin.get(f"/millrace{path}")
        admin.headers["x-person"] = "admin"
        assert nobody.status_code == 401, path
        for each in (answer, nobody):
            policy = each.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy


def test_no_route_is_for_nobody_and_none_that_changes_something_for_who_may_not(
    admin: TestClient, airflow: StandInAirflow
) -> None:
    """Over all routes that there are, so that a new one cannot be forgotten."""
    del admin.headers["x-person"]
    mount = cast(Starlette, admin.app).routes[0]
    assert isinstance(mount, Mount)
    assert all(isinstance(route, APIRoute) for route in mount.routes), "another kind escapes the common dependencies"
    changing = []
    for route in mount.routes:
        assert isinstance(route, APIRoute)
        path = f"/millrace{route.path.format(name=APPLICATION, dag_id='millrace_stop', file='streams.css')}"
        for method in route.methods:
            assert admin.request(method, path, headers=SAME).status_code == 401, path
            if method not in {"GET", "HEAD"}:
                changing.append(path)
                assert admin.request(method, path, headers={**SAME, "x-person": "viewer"}).status_code == 403, path
                other_site = {"x-person": "admin", "sec-fetch-site": "cross-site"}
                assert admin.request(method, path, headers=other_site).status_code == 403, path
    assert changing == [f"{PAGE}/actions/millrace_stop"]
    assert airflow.started == []


def test_no_page_has_script_or_style_in_it(admin: TestClient) -> None:
    for path in ("/millrace/", PAGE, f"{PAGE}/actions/millrace_stop", f"{PAGE}/dead-letters", "/millrace/nothing"):
        text = admin.get(path).text
        assert text.count("<script") == 1
        assert "<style" not in text
        assert " style=" not in text
        assert "http:" not in text.replace("http://www.w3.org/2000/svg", "")


def test_an_application_without_a_dead_letter_topic_says_so(admin: TestClient) -> None:
    assert "payments has no dead-letter topic" in admin.get(f"{PAGE}/dead-letters").text
    assert f'href="{PAGE}/dead-letters"' not in admin.get(PAGE).text


def test_what_comes_from_outside_is_escaped(admin: TestClient, home: Home) -> None:
    document = yaml.safe_load(home.spec_path(APPLICATION).read_text())
    home.spec_path(APPLICATION).write_text(yaml.safe_dump({**document, "description": EVIL}))
    home.spec_path("evil<b>").write_text("name: [")
    append_journal(home.application(APPLICATION), EVIL, EVIL, reason=EVIL)
    for path in ("/millrace/", PAGE, "/millrace/applications/evil%3Cb%3E", f"/millrace/applications/{EVIL}"):
        text = admin.get(path).text
        assert "alert(1)</script>" not in text
        assert "evil<b>" not in text
    assert EVIL in unescape(admin.get(PAGE).text)


def test_an_admin_sees_a_button_for_each_dag_that_is_there(admin: TestClient, airflow: StandInAirflow) -> None:
    text = admin.get(PAGE).text
    assert all(f'id="do-{dag_id}"' in text for dag_id in ACTIONS)
    airflow.there = ("millrace_deploy", "millrace_stop")
    text = admin.get(PAGE).text
    assert [dag_id for dag_id in ACTIONS if f'id="do-{dag_id}"' in text] == ["millrace_deploy", "millrace_stop"]


def test_a_viewer_sees_everything_and_can_start_nothing(admin: TestClient, airflow: StandInAirflow) -> None:
    admin.headers["x-person"] = "viewer"
    assert admin.get("/millrace/").status_code == 200
    text = admin.get(PAGE).text
    assert 'id="do-' not in text
    assert "You may look" in text
    assert admin.get(f"{PAGE}/actions/millrace_stop").status_code == 403
    assert admin.post(f"{PAGE}/actions/millrace_stop", headers=SAME).status_code == 403
    assert airflow.started == []


def test_what_deletes_asks_for_a_dry_run_first(admin: TestClient) -> None:
    for action in ACTIONS.values():
        text = admin.get(f"{PAGE}/actions/{action.dag_id}").text
        checked = 'id="p-dry_run" name="dry_run" value="true" checked' in text
        assert checked is action.deletes, action.dag_id
        assert ("cannot be taken back" in text) is action.deletes


def test_a_confirmed_panel_starts_a_run_with_typed_params_and_leads_to_it(
    admin: TestClient, airflow: StandInAirflow
) -> None:
    form = {"application": "other", "dry_run": "true", "reason": "why", "limit": "7", "stores": '["a"]', "mode": "slow"}
    answer = admin.post(f"{PAGE}/actions/millrace_reset", data=form, headers=SAME)
    conf = {"application": APPLICATION, "dry_run": True, "reason": "why", "limit": 7, "stores": ["a"], "mode": "slow"}
    assert airflow.started == [("millrace_reset", conf)]
    assert answer.status_code == 200
    assert "/dags/millrace_reset/runs/manual__2026-01-01T00%3A00%3A00%2B00%3A00" in answer.text
    assert "queued" in answer.text


def test_an_unchecked_dry_run_and_an_empty_optional_param_are_sent_as_such(
    admin: TestClient, airflow: StandInAirflow
) -> None:
    form = {"reason": "", "limit": "0", "stores": "", "mode": "fast"}
    admin.post(f"{PAGE}/actions/millrace_reset", data=form, headers=SAME)
    conf = {"application": APPLICATION, "dry_run": False, "reason": "", "limit": 0, "stores": None, "mode": "fast"}
    assert airflow.started == [("millrace_reset", conf)]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("limit", "many", "a whole number is needed"),
        ("stores", "[", "this is no JSON"),
        ("mode", "other", "not one of the choices"),
    ],
)
def test_a_wrong_field_starts_nothing_and_is_shown_as_it_was_sent(
    admin: TestClient, airflow: StandInAirflow, field: str, value: str, said: str
) -> None:
    form = {"reason": "keep this", "limit": "1", "stores": "", "mode": "fast", field: value}
    answer = admin.post(f"{PAGE}/actions/millrace_reset", data=form, headers=SAME)
    assert answer.status_code == 400
    assert said in answer.text
    assert "keep this" in answer.text
    assert airflow.started == []


def test_what_airflow_does_not_take_is_said_in_the_panel(admin: TestClient, airflow: StandInAirflow) -> None:
    airflow.refusal = AirflowRefusedError(400, "reason is too short")
    answer = admin.post(f"{PAGE}/actions/millrace_stop", data={"limit": "1", "mode": "fast"}, headers=SAME)
    assert answer.status_code == 400
    assert "reason is too short" in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://elsewhere.example"},
        {"origin": "null"},
        {},
    ],
)
def test_a_request_of_another_site_starts_nothing(
    admin: TestClient, airflow: StandInAirflow, headers: dict[str, str]
) -> None:
    form = {"limit": "1", "mode": "fast"}
    assert admin.post(f"{PAGE}/actions/millrace_stop", data=form, headers=headers).status_code == 403
    assert airflow.started == []


def test_our_own_origin_and_a_token_of_a_program_may_start(admin: TestClient, airflow: StandInAirflow) -> None:
    form = {"limit": "1", "mode": "fast"}
    for headers in ({"origin": "http://testserver"}, {"authorization": "Bearer of-a-program"}):
        assert admin.post(f"{PAGE}/actions/millrace_stop", data=form, headers=headers).status_code == 200
    assert len(airflow.started) == 2


def test_other_dags_and_unknown_applications_are_not_found(admin: TestClient, airflow: StandInAirflow) -> None:
    airflow.there = (*airflow.there, "somebody_elses")
    assert admin.post(f"{PAGE}/actions/somebody_elses", headers=SAME).status_code == 404
    assert admin.get(f"{PAGE}/run?dag=somebody_elses&run=x").status_code == 404
    assert admin.get("/millrace/applications/nobody").status_code == 404
    assert admin.get("/millrace/static/..%2Fpages.py").status_code == 404


def test_a_fragment_is_the_changing_part_alone(admin: TestClient) -> None:
    for path in ("/millrace/", PAGE):
        fragment = admin.get(path, headers={"x-streams-fragment": "live"}).text
        assert "<html" not in fragment
        assert fragment.strip() in admin.get(path).text or "data-part" in fragment


def test_savepoints_of_the_application_are_proposed_and_another_may_be_written() -> None:
    proposed = ["payments/latest", "payments/one", "other/latest"]
    param = {"value": "", "schema": {"type": "string", "examples": proposed, "values_display": {"payments/one": "One"}}}
    own = (Option(value="payments/two", label="Two"),)
    (field,) = fields({"savepoint": param}, ACTIONS["millrace_restore"], "payments", savepoints=own)
    assert field.value == "payments/latest"
    assert [option.value for option in field.options] == ["payments/latest", "payments/one", "payments/two"]
    assert [option.label for option in field.options] == ["payments/latest", "One", "Two"]
    assert read_form({"savepoint": "elsewhere/x"}, [field])[0] == {"savepoint": "elsewhere/x"}
