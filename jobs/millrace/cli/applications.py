"""``millrace run``, ``deploy``, ``stop``, ``take-over`` and ``status``."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from millrace.cli.console import messages, out, progress
from millrace.cli.environment import application_here, fill_in_environment, named_spec, print_difference
from millrace.logs import LogFormat, configure_logs

if TYPE_CHECKING:
    from millrace.install.application import Application
    from millrace.install.which_spec import Use

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the application, as in config/apps/NAME.yaml.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Make the checks and print the plan; change nothing.")]
Reason = Annotated[str, typer.Option("--reason", help="Goes to the application's journal.")]


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(epilog="Example: [bold]millrace run config/apps/fraud-detection.yaml[/]")(run)
    app.command(epilog="Example: [bold]millrace deploy fraud-detection --dry-run[/]")(deploy)
    app.command(epilog="Example: [bold]millrace rollback fraud-detection --dry-run[/]")(rollback)
    app.command(epilog='Example: [bold]millrace stop fraud-detection --reason "broker maintenance"[/]')(stop)
    app.command(epilog="Example: [bold]millrace take-over fraud-detection --dry-run[/]")(take_over)
    app.command(epilog="Example: [bold]millrace status --once[/]")(status)


def run(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="Specification: a YAML file, or a name in config/apps.")],
    run_directory: Annotated[
        Path | None,
        typer.Option(
            help="Where the driver keeps control.json and its token. Default: run/NAME of the installation.",
            file_okay=False,
        ),
    ] = None,
    log_format: Annotated[
        LogFormat | None, typer.Option(help="Default: console on a terminal, json elsewhere.")
    ] = None,
) -> None:
    """Run an application in this process until it is stopped (Ctrl-C stops it gracefully).

    It exits with 0 when it was stopped, 1 when it failed, 3 when a newer driver of the application took over. It
    refuses to start while an operation (a reset, a restoration) holds the application.
    """
    from millrace.install.home import ApplicationDirectory
    from millrace.launch.ending import telling_why_it_ends

    configure_logs(log_format=log_format)
    fill_in_environment()
    # Spark would otherwise start its workers with the first `python3` of the path, which lacks the libraries.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if run_directory is None:
        # Without a run directory no other command looks for the reason.
        raise typer.Exit(_run(spec, None))
    with telling_why_it_ends(ApplicationDirectory(run_directory.absolute())):
        code = _run(spec, run_directory)
    raise typer.Exit(code)


def _run(spec: str, run_directory: Path | None) -> int:
    """The exit code of the application."""
    from millrace.garbage import collector_paused
    from millrace.spark.early_daemon import start_early_daemon
    from millrace.spark.submission import is_submitted

    # First of all: its imports take a second, as those of this process and the start of Spark's virtual machine do.
    early_daemon = None if is_submitted() else start_early_daemon()
    with collector_paused():
        from millrace.dsl.loading import load_topology
        from millrace.install.home import ApplicationDirectory, Home
        from millrace.install.launchers.base import OPERATION_VARIABLE
        from millrace.install.spec import UpgradeMode
        from millrace.install.which_spec import Use
        from millrace.launch.launched_code import keep_nodes
        from millrace.operations.journal import refuse_held

    loaded = named_spec(spec, Use.DEPLOYMENT).spec
    config = loaded.streams_config()
    if early_daemon is not None and not config.master.startswith("local"):
        early_daemon.release()  # workers run on other hosts
    own = Home.from_environment().application(loaded.name)
    directory = run_directory or own.path
    refuse_held({own, ApplicationDirectory(directory)}, what="run", within=os.environ.get(OPERATION_VARIABLE, ""))
    # The topology decides what executes it, and that how the virtual machine is tuned.
    topology = load_topology(loaded.module, config)
    # Only now, since it imports Spark: a mistake in the specification shows at once.
    with collector_paused():
        from millrace.spark.engine import engine_of
        from millrace.spark.session import open_session

    session = open_session(config, engine_of(config, topology))
    with collector_paused():
        from millrace.driver.matched_topics import with_topics_at_start
        from millrace.driver.run import run_application

    topology = with_topics_at_start(topology, config)
    directory.mkdir(parents=True, exist_ok=True)
    keep_nodes(ApplicationDirectory(directory).nodes, topology)
    discards_state = loaded.upgrade_mode is UpgradeMode.STATELESS
    return run_application(
        config,
        topology,
        session,
        run_directory=directory,
        discards_state=discards_state,
        owns_process=True,
    )


def deploy(
    name: Name,
    *,
    dry_run: DryRun = False,
    wait: Annotated[bool, typer.Option(help="Wait until it processes what arrives.")] = True,
    upgrade_mode: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="What a changed specification does with the state: last-state, savepoint or stateless. Default: as it "
            "says itself.",
        ),
    ] = None,
    rollback_on_failure: Annotated[
        bool | None,
        typer.Option(
            "--rollback-on-failure/--no-rollback-on-failure",
            help="Launch the last good specification again when the new one is not healthy in time. Default: as it "
            "says itself.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Launch it again although nothing differs.")] = False,
    reason: Reason = "deployed with `millrace deploy`",
) -> None:
    """Bring up what the application's specification says, or change the running one to it or to changed code.

    What differs from what was launched is printed: keys of the specification, nodes, files, packages.

    It exits with 1 when it was rolled back.
    """
    from millrace import supervise
    from millrace.install.spec import UpgradeMode

    quiet()
    application = application_here(name)
    modes = [mode.value for mode in UpgradeMode]
    if upgrade_mode is not None and upgrade_mode not in modes:
        raise typer.BadParameter(f"--upgrade-mode is one of {', '.join(modes)}")
    with progress(f"deploying {name}") as report:
        outcome = supervise.deploy(
            application,
            reason=reason,
            upgrade_mode=None if upgrade_mode is None else UpgradeMode(upgrade_mode),
            rollback_on_failure=rollback_on_failure,
            force=force,
            dry_run=dry_run,
            progress=report,
        )
    if outcome.action.leaves_new_one_down:
        print_outcome(outcome)
        raise typer.Exit(1)
    if wait and not dry_run:
        from millrace.cli.restore_bar import restore_bar

        with restore_bar(f"waiting until {name} is ready; its log is {application.directory.log}") as show:
            observation = supervise.wait_until_ready(application, on_probe=show)
    print_outcome(outcome)
    if wait and not dry_run:
        out.print(f"{name} is ready: {observation.text}", markup=False)


def rollback(name: Name, dry_run: DryRun = False, reason: Reason = "rolled back with `millrace rollback`") -> None:
    """Launch the last specification again with which the application was healthy, and that is not what runs.

    Supervision leaves the one in config/apps alone until it changes or is deployed again.
    """
    from millrace import operations, supervise

    quiet()
    with progress(f"rolling {name} back") as report:
        outcome = supervise.rollback(application_here(name), reason=reason, dry_run=dry_run, progress=report)
    print_outcome(outcome)
    if not dry_run and outcome.action is not operations.Action.ROLLED_BACK:
        raise typer.Exit(1)


def stop(name: Name, dry_run: DryRun = False, reason: Reason = "stopped with `millrace stop`") -> None:
    """Stop an application: gracefully within its limit, then by force. It stays stopped until it is deployed again."""
    from millrace import operations
    from millrace.errors import OperationError
    from millrace.install.home import Home

    quiet()
    home = Home.from_environment()
    deployed = home.deployed()
    if name not in deployed:
        raise OperationError(
            f"{name} was never deployed here ({home.root}).",
            remedy=f"name one of these: {', '.join(deployed)}" if deployed else "there is nothing to stop",
        )
    with progress(f"stopping {name}"):
        outcome = operations.stop(application_here(name), reason=reason, dry_run=dry_run)
    print_outcome(outcome)


def take_over(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="Specification: a YAML file, or a name in config/apps.")],
    dry_run: DryRun = False,
    reason: Reason = "taken over with `millrace take-over`",
) -> None:
    """Take over the offsets and changelogs of a Kafka Streams application of the same name, which has been stopped.

    Nothing else makes an application start from offsets that another client has committed.
    """
    from millrace import operations
    from millrace.install.which_spec import Use

    quiet()
    fill_in_environment()
    loaded = named_spec(spec, Use.DEPLOYMENT).spec
    print_outcome(operations.take_over(application_here(loaded.name), loaded, reason=reason, dry_run=dry_run))


def status(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Default: all applications.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the table once, and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, once.")] = False,
    interval: Annotated[float, typer.Option(min=0.2, help="Seconds between two probes.")] = 2.0,
    recovery: Annotated[
        bool, typer.Option("--recovery", help="Print how long restorations on this host would take, once.")
    ] = False,
) -> None:
    """Show how the applications are: a table that stays up to date until Ctrl-C.

    With --once or --json it exits with 1 when an application that should run does not work, and with 4 when all work
    but one commits nothing: its driver does not answer or is stopped, no broker answers it, its batch does not end,
    or an open transaction holds its input back. The line below it says what, since when, and what was heard last.
    """
    from millrace.cli.status_table import exit_code, explanations, print_json, probe, table, watch

    quiet()
    if recovery:
        _print_recovery(names or [], as_json=as_json)
        return
    if as_json or once:
        rows = probe(names or [])
        if as_json:
            print_json(rows)
        else:
            out.print(table(rows), soft_wrap=False)
            for line in explanations(rows):
                out.print(line)
        raise typer.Exit(exit_code(rows))
    watch(names or [], interval_s=interval)


def _print_recovery(names: list[str], *, as_json: bool) -> None:
    import orjson

    from millrace import insight
    from millrace.errors import MillraceError
    from millrace.insight.overview.watch import known_applications
    from millrace.install.home import Home
    from millrace.install.which_spec import Use

    home = Home.from_environment()
    estimates, failed = [], []
    chosen = names or known_applications(home)
    applications = [application_here(name) for name in chosen]
    print_difference(Use.RUNNING, *applications)
    for application in applications:
        try:
            estimates.append(insight.recovery_estimate(application))
        except MillraceError as error:
            if names:
                raise
            failed.append(f"{application}: {error}")
    for line in failed:
        messages.print(line, markup=False)
    if as_json:
        text = orjson.dumps([each.summary() for each in estimates], option=orjson.OPT_INDENT_2).decode()
        out.print(text, markup=False)
        return
    for each in estimates:
        copies = "with the standby's copies" if each.standby_runs else "with copies within acceptable.recovery.lag"
        basis = "as this host has shown" if each.measured else "assumed"
        out.print(
            f"{each.application}: {each.tasks} tasks, {each.records:,} changelog records: {each.restore_s:.1f} s; "
            f"{copies} ({each.standby_records:,} records) {each.standby_restore_s:.1f} s; at {each.records_per_s:,.0f} "
            f"records/s for each restoration, {basis}",
            markup=False,
        )


def application_named(name: str, use: Use | None = None) -> Application:
    """Returns the application, for a command about what it was launched with.

    Args:
        name: the application; where its specification or code has changed since its launch, a line says so.
        use: by which specification the command goes; by default by that of the launch.
    """
    from millrace.install.which_spec import Use as Uses

    application = application_here(name)
    print_difference(use or Uses.RUNNING, application)
    return application


def quiet() -> None:
    """Prepares a command: only warnings are logged, and the environment is filled in."""
    configure_logs(level=logging.WARNING, log_format=LogFormat.CONSOLE)
    fill_in_environment()


def print_outcome(outcome: object) -> None:
    """Prints what was done: the steps to standard error, the result to standard output."""
    from millrace.operations.outcome import Outcome

    assert isinstance(outcome, Outcome)
    for step in outcome.steps:
        messages.print(f"  {step}", markup=False)
    would = "would do: " if outcome.dry_run else ""
    out.print(f"{outcome.application}: {would}{outcome.done} ({outcome.text})", markup=False)
