"""`sinkproof certify`: crashes sinks at every point, writes the certificate and its reports, exits with the verdict."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from sinkproof.chaos.clock import utc_now
from sinkproof.cli.command_parts import (
    SHELL_CHOICE,
    Budget,
    Seconds,
    in_words,
    progress_on,
    share_scratch_with,
    shells_for,
)
from sinkproof.cli.exit_status import Terminated, leave
from sinkproof.cli.service_flags import service_options
from sinkproof.judging.verdict_and_exit_codes import EXIT_INTERRUPTED
from sinkproof.reports.document import FILE_NAME, Document, DocumentError, Measurement, replace_file, write_errors
from sinkproof.subject.command_contract import locator

if TYPE_CHECKING:
    from sinkproof.certifier.waivers import Waiver
    from sinkproof.subject.service_options import ServiceOptions

HOME: Final = Path(".sinkproof")  # in the working directory, as caches of linters and test runners are
STORE: Final = HOME / "kept"
BUDGET_SECONDS: Final = 20.0  # on two cores a small sink is examined by then; a slow one gets more in any case
# A small sink is struck by real deaths at each line by then, every time that the line runs, on both cores.
PLAN_SECONDS: Final = 180.0
BUDGET_SECONDS_ON_SPARK: Final = 60.0  # enough for hundreds of deaths in one long job, too
BUDGET_SECONDS_ON_SERVICES: Final = 240.0  # each step is tried with a broker that is killed and takes 3 s to restart
BUDGET_SECONDS_ON_HOSTS: Final = 300.0  # a run with a host that dies, or is cut off, takes 15 s
BUDGET_SECONDS_OF_ALL: Final = 10.0  # enough for every step of a built-in pair, and for most of their closures
BUDGET_SECONDS_OF_COMMAND: Final = 5.0  # a wrong command is convicted by then; what UPHELD needs is run in any case
BUDGETS: Final = (
    f"{in_words(BUDGET_SECONDS)}, and up to {in_words(PLAN_SECONDS)} for a sink of yours that seems right by then; "
    f"{in_words(BUDGET_SECONDS_ON_SPARK)} if Spark is among the shells; "
    f"{in_words(BUDGET_SECONDS_ON_SERVICES)} for pairs on services; "
    f"{in_words(BUDGET_SECONDS_OF_COMMAND)} for a command; {in_words(BUDGET_SECONDS_OF_ALL)} without SUBJECTS"
)


@click.command()
@click.argument("subjects", nargs=-1)
@click.option(
    "--on",
    "shell",
    type=SHELL_CHOICE,
    help="The shell in which the sink runs and is crashed.  [default: simulated and process; without SUBJECTS, spark, "
    "too]",
)
@click.option(
    "--master",
    default="local[6,100000]",
    show_default=True,
    help="The Spark master, with a slot for each subtask; cluster:3 starts one of three hosts on this machine, which "
    "are killed and cut off, too. Hosts of `services start spark-cluster` are not.",
)
@click.option(
    "--fan-out",
    "fan_out",
    metavar="MASTER",
    default="",
    help="A Spark master: its executors run schedules, too, with a worker process in each slot. local[4], "
    "spark://host:7077, or cluster:3, which starts three hosts on this machine. What is found, and in which order, "
    "does not depend on how many there are; a lost executor costs its schedules, which are run again. The subject has "
    "to be found under the same path, or installed, on every host. Kept on this machine: closures, canaries, sinks "
    "with an external system, foreachBatch functions, commands, and what runs in the shell `spark`.",
)
@click.option(
    "--command",
    "command_line",
    help="Certify a sink in any language: a command that speaks JSON lines on stdin/stdout.",
)
@click.option(
    "--reader",
    help="With --command: a command that prints the committed rows, one [split, offset, key, value] a line. "
    "Without keys and values, rows that arrive altered are not seen.",
)
@click.option(
    "--claims", default="EXACTLY_ONCE", show_default=True, help="With --command: what it claims, comma-separated."
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the certificate.  [default: .sinkproof/<time>]")
@click.option("--json", "as_json", is_flag=True, help="Print the certificate instead of the summary.")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Another seed gives other latencies and interleavings."
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0),
    default=0,
    help="Afterwards, run random schedules in the simulated shell for so many minutes.",
)
@click.option(
    "--budget",
    type=Budget(),
    help="Wall time for each subject, in all shells together; the canaries take theirs besides. No run begins after "
    "it, but for those that confirm a finding: what is missing by then leaves UNKNOWN. `least`: until nothing is "
    "missing that the verdict needs.  [default: "
    f"{BUDGETS}; half of it for a sink that breaks a claim, more while something is missing that the verdict needs]",
)
@click.option(
    "--hang",
    type=Seconds(),
    default="10s",
    show_default=True,
    help="A call to the sink that takes longer counts as hung.",
)
@service_options()
@click.option(
    "--strict",
    is_flag=True,
    help="UPHELD only if every statement ran, every executed line was killed, stopped and paused, and no stage of the "
    "campaign was cut short.",
)
@click.option("--no-canaries", is_flag=True, help="Do not test the certifier itself first; the certificate says so.")
@click.option(
    "--fresh",
    is_flag=True,
    envvar="SINKPROOF_FRESH",
    help=f"Run everything anew. Otherwise results in {STORE} are used where nothing has changed since, and one in "
    "twenty of their runs is repeated.",
)
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@click.option("--plan", is_flag=True, help="Print the stages of each shell's campaign in their order, and run nothing.")
def certify(
    *,
    subjects: tuple[str, ...],
    command_line: str | None,
    reader: str | None,
    services: ServiceOptions,
    **options: Any,
) -> None:
    """Crash a sink at every point where it can crash, and say what it delivered.

    SUBJECTS are registered pairs (`sinkproof table --registered`), path/to/file.py:Contract or package.module:Contract.
    Without SUBJECTS: every pair that needs only the memory and files of this machine.

    The exit status is that of the verdict (`sinkproof --help`), and 0 for a violation that is waived in pyproject.toml.
    """
    if not (options["quiet"] or options["plan"]):  # the imports below take half a second
        click.echo(f"certifying {', '.join(subjects) or command_line or 'every pair of memory and files'} …", err=True)
    from sinkproof.certifier.certify import LEAST_SECONDS, Options
    from sinkproof.certifier.certify import certify as run
    from sinkproof.certifier.waivers import waivers_of

    if options["plan"]:
        click.echo(_plans(("process",) if command_line else shells_for(options["shell"], everything=False)))
        return
    share_scratch_with(options["master"])
    locators = list(subjects) or ([] if command_line else _embedded())
    if command_line:
        locators.append(locator(command_line, reader, options["claims"]))
    waivers = waivers_of(Path.cwd())  # before anything runs: a mistake there is told at once
    shells = ("process",) if command_line else shells_for(options["shell"], everything=not subjects)
    out, budget = options["out"] or _new_folder(), options["budget"]
    default = BUDGET_SECONDS_OF_COMMAND if command_line else default_budget(subjects, shells, options["master"])
    chosen = Options(
        shells=shells,
        master=options["master"],
        budget_holds=bool(budget),
        budget_seconds=default if budget is None else budget or LEAST_SECONDS,
        plan_seconds=PLAN_SECONDS if budget is None and not command_line else 0.0,
        seed=options["seed"],
        soak_seconds=60 * options["minutes"],
        canaries=not options["no_canaries"],
        hang_seconds=options["hang"],
        measurements=_last_soak(),
        services=services,
        fan_out=options["fan_out"],
        strict=options["strict"],
        store=STORE,
        fresh=options["fresh"],
    )
    try:
        with closing(progress_on(quiet=options["quiet"])) as progress:
            document = run(locators, out, options=chosen, progress=progress)
    except (KeyboardInterrupt, Terminated):
        _show_what_was_found(out, as_json=options["as_json"])
        leave(f"interrupted: what was found by then is in {out / FILE_NAME}", EXIT_INTERRUPTED)
    _finish(document, out, as_json=options["as_json"], waivers=waivers)


def _finish(document: Document, out: Path, *, as_json: bool, waivers: Sequence[Waiver]) -> NoReturn:
    """Writes the reports, prints the result, and exits with the verdict."""
    from sinkproof.certifier.waivers import WaiverCheck

    _write_reports(document, out)
    click.echo(json.dumps(document, indent=1) if as_json else _summary(document, out))
    check = WaiverCheck(document=document, waivers=waivers, today=utc_now().date())
    for line in check.lines():
        click.echo(line, err=as_json)
    for why in _asides(document):
        click.echo(f"sinkproof: {why}", err=True)
    sys.exit(check.exit_status)


def _show_what_was_found(out: Path, *, as_json: bool) -> None:
    """Of a certification that was interrupted, if it came to write a certificate."""
    with suppress(OSError, ValueError):
        document = json.loads((out / FILE_NAME).read_text())
        if document.get("complete") is False:
            _write_reports(document, out)
            click.echo(json.dumps(document, indent=1) if as_json else _summary(document, out))


def _asides(document: Document) -> list[str]:
    failures = dict.fromkeys(failure["why"] for failure in document["failures"] if failure["whose"] != "subject")
    results_by_reason: dict[str, list[str]] = {}
    for text in document["unkept"]:
        result, _, why = text.partition(": ")
        results_by_reason.setdefault(why, []).append(result)
    return [*(f"not kept: {', '.join(results)}: {why}" for why, results in results_by_reason.items()), *failures]


def default_budget(subjects: tuple[str, ...], shells: tuple[str, ...], master: str) -> float:
    from sinkproof.chaos.services.spark_cluster.standalone_spark import hosts_in
    from sinkproof.sink_adapters.registry import SERVICE_PAIRS

    if "spark" in shells and hosts_in(master):
        return BUDGET_SECONDS_ON_HOSTS
    if not subjects:
        return BUDGET_SECONDS_OF_ALL
    if SERVICE_PAIRS.keys() & set(subjects):
        return BUDGET_SECONDS_ON_SERVICES
    return BUDGET_SECONDS_ON_SPARK if "spark" in shells else BUDGET_SECONDS


def _plans(shells: Sequence[str]) -> str:
    """One line for each stage: its name, what is traced, and the conditions under which it runs."""
    from sinkproof.campaign.campaign_budget import plan_of
    from sinkproof.campaign.stage import table_of

    lines = []
    for shell in shells:
        rows = table_of(plan_of(shell))
        width = max(len(name) for name, _, _ in rows)
        lines += [f"{shell}: {len(rows)} stages"]
        lines += [f"  {name:{width}}  {traced:6}  {conditions}".rstrip() for name, traced, conditions in rows]
    return "\n".join(lines)


def _last_soak() -> Sequence[Measurement]:
    """Prints why a summary cannot be read; the certification runs without it."""
    from sinkproof.certifier.soak_measurements import SUMMARY, soak_measurements

    try:
        return soak_measurements(SUMMARY)
    except DocumentError as error:
        click.echo(f"sinkproof: {error}", err=True)
        return ()


def _embedded() -> list[str]:
    from sinkproof.sink_adapters.registry import PAIRS

    return [name for name in PAIRS if not name.endswith("-parquet")]


def _new_folder() -> Path:
    from datetime import datetime

    out = HOME / datetime.now().strftime("%Y%m%d-%H%M%S-%f")
    with write_errors(f"cannot make the folder {out}", next_step="Name a folder that can be written with --out"):
        out.mkdir(parents=True)
        latest = HOME / f".latest-{out.name}"  # another command may make a link of its own at the same moment
        latest.symlink_to(out.name)
        latest.replace(HOME / "latest")
    return out


def _write_reports(document: Document, out: Path) -> None:
    from sinkproof.reports import junit, markdown, page

    renderers = {"report.html": page.render, "junit.xml": junit.render, "summary.md": markdown.render}
    next_step = f"Free some space; `sinkproof report {out}` makes it again from the certificate"
    for name, render in renderers.items():
        with write_errors(f"cannot write the report {out / name}", next_step=next_step):
            replace_file(out / name, render(document))


def _summary(document: Document, out: Path) -> str:
    import shutil

    from sinkproof.reports import terminal

    width = shutil.get_terminal_size((120, 24)).columns
    text = terminal.render(document, width=width, color=sys.stdout.isatty() and not os.environ.get("NO_COLOR"))
    return f"{text.rstrip()}\n\nReport: {out / 'report.html'}"
