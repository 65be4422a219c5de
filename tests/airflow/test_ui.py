"""The page Streams in a real Airflow and a real Chromium, as an operator who may run DAGs and as an operator who may
look."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest
import yaml
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.expected_conditions import staleness_of
from selenium.webdriver.support.ui import WebDriverWait

from millrace.install.application import Application
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.topics import TopicSpec
from millrace.launch import observe
from millrace.launch.driver import UNRESPONSIVE
from millrace.operations import stop
from millrace.supervise import deploy
from tests.application import SEARCH_PATH
from tests.dead_letters import dead_letter_record_of
from tests.records import produce
from tests.waiting import wait_for

from .browser import LIMIT_S, LOOKS, Browser, Look, screenshots_directory
from .conftest import APPLICATION, Platform

ORDERS = "order-pipeline"
"""Not the one that other tests of this directory run, perhaps in another Airflow with the same broker."""
DEAD_LETTERS = "letters-of-the-page"
STREAMS = "/millrace/"
PAGE = f"{STREAMS}applications/{APPLICATION}"
ORDERS_PAGE = f"{STREAMS}applications/{ORDERS}"
DESKTOP = Look(1280, "light")


def token(platform: Platform, username: str) -> str:
    password = json.loads((platform.airflow.directory / "passwords.json").read_text())[username]
    answer = httpx.post(
        f"{platform.airflow.address}/auth/token", json={"username": username, "password": password}, trust_env=False
    )
    answer.raise_for_status()
    return str(answer.json()["access_token"])


@pytest.fixture(scope="module")
def orders(platform: Platform, bootstrap_servers: str) -> Iterator[str]:
    """An application with a large topology, whose lag grows, beside the one that the other tests look after."""
    KafkaAdmin(bootstrap_servers).create_missing([TopicSpec(name=DEAD_LETTERS)])
    produce(
        bootstrap_servers,
        DEAD_LETTERS,
        [dead_letter_record_of("placed-orders", 7, b"k", ValueError("<b>no number</b>"))],
    )
    platform.home.spec_path(ORDERS).write_text(
        yaml.safe_dump(
            {
                "name": ORDERS,
                "module": "apps.order_pipeline:build",
                "description": "Decides which orders are accepted: <b>prices</b>, limits, credit.",
                "config": {
                    "bootstrap.servers": bootstrap_servers,
                    "errors.dead.letter.queue.topic.name": DEAD_LETTERS,
                },
                "launcher": {
                    "command": ["{python}", "-m", "tests.airflow.shown_job", "{run_directory}"],
                    "environment": {"PYTHONPATH": SEARCH_PATH},
                },
                "preflight": {"enabled": False},
            }
        )
    )
    directory = platform.home.application(ORDERS)
    directory.path.mkdir(parents=True, exist_ok=True)
    (directory.path / "mood").write_text("behind")
    deploy(Application(platform.home, ORDERS), reason="to be shown")
    wait_for(lambda: observe(Application(platform.home, ORDERS)).verdict == "healthy", limit_s=120)
    yield ORDERS
    stop(Application(platform.home, ORDERS), limits=UNRESPONSIVE)
    platform.home.spec_path(ORDERS).unlink()


@pytest.fixture(scope="module")
def chromium(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(platform.airflow.address, screenshots_directory(tmp_path_factory.mktemp("screenshots")))
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def tokens(platform: Platform) -> dict[str, str]:
    return {person: token(platform, person) for person in ("admin", "viewer")}


@pytest.fixture
def admin(chromium: Browser, tokens: dict[str, str]) -> Browser:
    chromium.sign_in(tokens["admin"])
    chromium.look(DESKTOP)
    return chromium


@pytest.fixture
def viewer(chromium: Browser, tokens: dict[str, str]) -> Browser:
    chromium.sign_in(tokens["viewer"])
    chromium.look(DESKTOP)
    return chromium


def test_nobody_sees_anything(platform: Platform) -> None:
    for path in (STREAMS, PAGE, f"{PAGE}/actions/millrace_stop", f"{STREAMS}static/streams.js"):
        # The first request has the pages made, which takes seconds.
        answer = httpx.get(f"{platform.airflow.address}{path}", trust_env=False, timeout=LIMIT_S)
        assert answer.status_code == 401


def test_streams_is_in_the_navigation_and_shows_the_page_in_airflows_theme(admin: Browser, orders: str) -> None:
    admin.open("/plugin/streams")
    frame = admin.find("iframe")
    navigation = [link.get_attribute("href") or "" for link in admin.all("nav a, a")]
    assert any(link.endswith("/plugin/streams") for link in navigation), navigation
    for theme in ("dark", "light"):
        admin.driver.switch_to.default_content()
        admin.driver.execute_script(
            "const c = document.documentElement.classList; c.remove('dark', 'light'); c.add(arguments[0])", theme
        )
        admin.screenshot(f"in-airflow-{theme}")
        admin.driver.switch_to.frame(frame)
        assert admin.text(f"#to-{orders}") == orders
        assert admin.all(f"html[data-theme={theme}]")


def test_every_page_is_accessible_and_fits_in_every_size_and_theme(admin: Browser, orders: str) -> None:
    pages = {
        "applications": STREAMS,
        "application": ORDERS_PAGE,
        "dead-letters": f"{ORDERS_PAGE}/dead-letters",
        "panel": f"{ORDERS_PAGE}/actions/millrace_stop",
        "not-found": f"{STREAMS}applications/nobody",
    }
    found = {}
    for look in LOOKS:
        admin.look(look)
        for name, path in pages.items():
            admin.open(path)
            admin.find("main h1")
            admin.screenshot(f"{name}-{look}")
            if violations := admin.violations():
                found[f"{name}-{look}"] = violations
            assert not admin.is_wider_than_the_window(), (name, look)
    assert found == {}
    assert [line for line in admin.complaints() if "404" not in line] == []


def test_the_table_and_the_picture_show_what_the_driver_says(admin: Browser, orders: str) -> None:
    admin.open(STREAMS)
    row = admin.on(f"#to-{orders}", lambda link: link.find_element(By.XPATH, "ancestor::tr").text)
    assert "Healthy" in row
    assert "/s" in row
    admin.click(f"#to-{orders}")
    admin.find("svg.topology")
    text = admin.on("svg.topology", lambda picture: picture.get_attribute("textContent")) or ""
    for words in ("placed-orders", "credit-by-customer", "behind", "lag"):
        assert words in text
    assert "<b>prices</b>" in admin.text(".description")
    tasks = admin.text("section[aria-labelledby=tasks-title]")
    assert "worker-0.example/" in tasks
    assert "launch" in admin.text("section[aria-labelledby=journal-title]")


def test_the_latest_dead_letters_are_one_step_away(viewer: Browser, orders: str) -> None:
    viewer.open(ORDERS_PAGE)
    viewer.click("#dead-letters")
    row = viewer.text("tbody tr")
    for words in ("0:0", "ValueError", "<b>no number</b>", "placed-orders-1, offset 7"):
        assert words in row


def test_the_page_keeps_up_by_itself_and_keeps_focus_and_opened_lists(admin: Browser, orders: str) -> None:
    admin.open(ORDERS_PAGE)
    admin.click("#topology-list summary")
    picture = admin.find("#picture")
    admin.driver.execute_script("arguments[0].focus(); arguments[0].scrollLeft = 150", picture)
    before = admin.text(".figures")
    WebDriverWait(admin.driver, LIMIT_S).until(lambda _: admin.text(".figures") != before)
    assert admin.all("#topology-list[open]")
    assert admin.driver.execute_script("return document.activeElement.id") == "picture"
    assert admin.driver.execute_script("return document.getElementById('picture').scrollLeft") == 150


def test_a_restoration_is_shown_with_its_end(admin: Browser, orders: str, platform: Platform) -> None:
    mood = platform.home.application(orders).path / "mood"
    mood.write_text("restoring")
    try:
        admin.open(ORDERS_PAGE)
        admin.wait_for_text(".summary", "restoring:")
        assert "to go" in admin.find(".restoring").text
        admin.screenshot("restoring-1280-light")
        admin.open(STREAMS)
        admin.wait_for_text(".cards", "restoring:")
    finally:
        mood.write_text("behind")


def start(browser: Browser) -> str:
    """Presses Start, and gives the link to the run. As a person would, once more where SQLite, in which this Airflow
    has its tables, is locked."""
    while True:
        button = browser.find("form button[type=submit]")
        button.send_keys(Keys.ENTER)
        WebDriverWait(browser.driver, LIMIT_S).until(staleness_of(button))
        if links := browser.all("#run-link"):
            return str(links[0].get_attribute("href"))
        assert "Database error" in browser.text("main"), browser.text("main")


_FILLED_IN = {"millrace_restore": ("savepoint", f"{APPLICATION}/latest")}


def test_every_button_starts_its_dag_with_the_application_filled_in(admin: Browser, platform: Platform) -> None:
    admin.open(PAGE)
    admin.find("nav.actions")
    there = {dag["dag_id"] for dag in platform.client.request("GET", "/dags?limit=200")["dags"]}
    buttons = [str(button.get_attribute("id")).removeprefix("do-") for button in admin.all("nav.actions .button")]
    assert {"millrace_deploy", "millrace_stop"} <= set(buttons) <= there
    started = []
    for dag_id in buttons:
        admin.open(PAGE)
        admin.find(f"#do-{dag_id}").send_keys(Keys.ENTER)
        name, value = _FILLED_IN.get(dag_id, ("application", APPLICATION))
        assert admin.find(f"#p-{name}").get_attribute("value") == value
        # Where nothing is changed there is none.
        dry_run = admin.all("#p-dry_run")
        if dry_run and not dry_run[0].is_selected():
            dry_run[0].send_keys(Keys.SPACE)
        link = start(admin)
        runs = platform.client.request("GET", f"/dags/{dag_id}/dagRuns?order_by=-run_after")["dag_runs"]
        run = next(run for run in runs if quote(run["dag_run_id"], safe="") in link)
        started.append((dag_id, str(run["dag_run_id"])))
        assert run["conf"][name] == value
        assert run["conf"].get("dry_run", True) is True
        assert ("dry_run" in run["conf"]) is bool(dry_run)
        assert run["triggering_user_name"] == "admin"
        assert run["note"] == "started on the page Streams"
    assert admin.violations() == []
    admin.screenshot("run-1280-light")
    for dag_id, run_id in started:
        platform.wait_for_run(dag_id, run_id)
    admin.open(f"{PAGE}/actions/millrace_stop")
    admin.find("#p-dry_run").send_keys(Keys.SPACE)
    start(admin)
    admin.wait_for_text("#live", "success")


def test_the_link_to_a_run_leaves_the_frame(admin: Browser) -> None:
    """Airflow's frame allows no page in it to navigate the whole window."""
    admin.open("/plugin/streams")
    admin.driver.switch_to.frame(admin.find("iframe"))
    admin.click(f"#to-{APPLICATION}")
    admin.find("#do-millrace_preflight").send_keys(Keys.ENTER)
    target = start(admin)
    admin.click("#run-link")
    admin.driver.switch_to.default_content()
    WebDriverWait(admin.driver, LIMIT_S).until(lambda driver: driver.current_url == target)


def test_a_viewer_sees_every_page_and_can_start_nothing(
    viewer: Browser, platform: Platform, tokens: dict[str, str], orders: str
) -> None:
    viewer.open(STREAMS)
    viewer.find(f"#to-{orders}")
    viewer.open(ORDERS_PAGE)
    viewer.find("svg.topology")
    assert viewer.all("nav.actions .button") == []
    assert "You may look" in viewer.find("nav.actions").text
    viewer.screenshot("viewer-1280-light")
    assert viewer.violations() == []
    viewer.open(f"{PAGE}/actions/millrace_stop")
    assert viewer.find("h1").text == "Not allowed"
    with httpx.Client(base_url=platform.airflow.address, trust_env=False, timeout=LIMIT_S) as client:
        client.headers["authorization"] = f"Bearer {tokens['viewer']}"
        assert client.post(f"{PAGE}/actions/millrace_stop", data={"dry_run": "true"}).status_code == 403


def test_a_request_of_another_site_starts_nothing(platform: Platform, tokens: dict[str, str]) -> None:
    """The cookie alone is not enough: another site's page could make the browser send it."""
    with httpx.Client(
        base_url=platform.airflow.address, trust_env=False, cookies={"_token": tokens["admin"]}
    ) as client:
        for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://elsewhere.example"}, {}):
            answer = client.post(f"{PAGE}/actions/millrace_stop", data={"dry_run": "true"}, headers=headers)
            assert answer.status_code == 403


def test_a_silent_driver_delays_no_page(admin: Browser, orders: str, platform: Platform) -> None:
    mood = platform.home.application(orders).path / "mood"
    mood.write_text("silent")
    try:
        begin = time.monotonic()
        admin.open(STREAMS)
        admin.find(f"#to-{APPLICATION}")
        assert time.monotonic() - begin < 20
        admin.wait_for_text(".cards", "did not answer")
    finally:
        mood.write_text("behind")
