"""`sinkproof certify`: a sink. `sinkproof canaries`: the certifier itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sinkproof.chaos.clock import now
from sinkproof.cli.exit_status import Terminated, leave
from sinkproof.cli.option_kafka import kafka
from sinkproof.cli.option_network import network
from sinkproof.cli.option_nodes import nodes
from sinkproof.cli.option_services import containers
from sinkproof.judging.verdict import EXIT_INTERRUPTED, Verdict
from sinkproof.reports.document import FILE_NAME, Document, DocumentError, Measurement, replace_file
from sinkproof.subject.contract import ContractError

BUDGET_SECONDS = 40.0  # enough for every step and every line of a file sink to be killed, and for its closure
BUDGET_SECONDS_ON_SPARK = 60.0  # enough for hundreds of deaths in one long job, too
BUDGET_SECONDS_ON_SERVICES = 240.0  # a broker that is killed takes 3 s to come back, and that is tried at each step
BUDGET_SECONDS_OF_ALL = 10.0  # enough for every step of a built-in pair, and for most of their closures
SHELL_CHOICE = click.Choice(["simulated", "process", "spark", "all"])
TRIAL_CHOICE = click.Choice([*SHELL_CHOICE.choices, "kafka", "cassandra"])  # the real one, started for it


class Seconds(click.ParamType[float]):
    """A time as people write it: 60, 60s, 5m."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text, factor = str(value), 1.0
        if text.endswith(("s", "m", "h")):
            factor = {"s": 1.0, "m": 60.0, "h": 3600.0}[text[-1]]
            text = text[:-1]
        try:
            seconds = float(text) * factor
        except ValueError:
            self.fail(f"{value!r} is not a time. Write seconds, or 30s, 5m, 1h", param, ctx)
        if not 0 < seconds < float("inf"):
            self.fail(f"{value!r} is not a time to spend", param, ctx)
        return seconds


@click.command()
@click.argument("subjects", nargs=-1)
@click.option(
    "--on",
    "shell",
    type=SHELL_CHOICE,
    help="Where the sink runs and dies.  [default: simulated and process; to certify everything, spark, too]",
)
@click.option("--master", default="local[6,100000]", show_default=True, help="The Spark master; a slot per subtask.")
@click.option(
    "--command", "command_line", help="A sink in any language: this command speaks JSON lines on stdin/stdout."
)
@click.option("--reader", help="With --command: a command that prints the committed rows, one [split, offset] a line.")
@click.option(
    "--claims", default="EXACTLY_ONCE", show_default=True, help="With --command: what it claims, comma-separated."
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the certificate.  [default: .sinkproof/<time>]")
@click.option("--json", "as_json", is_flag=True, help="Print the certificate instead of the summary.")
@click.option("--seed", type=int, default=0, show_default=True, help="Other latencies, other interleavings.")
@click.option(
    "--minutes", type=click.FloatRange(min=0), default=0, help="Then a soak: so long random schedules, simulated."
)
@click.option(
    "--budget",
    type=Seconds(),
    help="Time per subject and shell.  [default: 40s, 60s on Spark; 4m for pairs on services; 7s for everything]",
)
@click.option(
    "--hang", type=Seconds(), default="10s", show_default=True, help="After so long a call to the sink counts as hung."
)
@kafka
@containers
@network
@nodes
@click.option("--no-canaries", is_flag=True, help="Skip the certifier's own trial; the certificate says so.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def certify(subjects: tuple[str, ...], command_line: str | None, reader: str | None, **options: Any) -> None:
    """Crash a sink everywhere and say what it delivered.

    SUBJECTS are registered pairs (`sinkproof table --registered`), path/to/file.py:Contract or package.module:Contract.
    Without any: every pair that needs nothing but this machine's memory and files.
    """
    from sinkproof.certifier.certify import Options, exit_status
    from sinkproof.certifier.certify import certify as run

    locators = list(subjects) or ([] if command_line else _embedded())
    if command_line:
        locators.append(_command_locator(command_line, reader, options["claims"]))
    shells = ("process",) if command_line else _shells(options["shell"], everything=not subjects)
    out = options["out"] or _new_folder()
    chosen = Options(
        shells=shells,
        master=options["master"],
        budget_seconds=options["budget"] or default_budget(subjects, shells, everything=not (subjects or command_line)),
        seed=options["seed"],
        soak_seconds=60 * options["minutes"],
        canaries=not options["no_canaries"],
        hang_seconds=options["hang"],
        measurements=_last_soak(),
    )
    progress = progress_on(quiet=options["quiet"])
    try:
        document = run(locators, out, options=chosen, progress=progress)
    except (KeyboardInterrupt, Terminated):
        progress.close()
        leave(f"interrupted: what was found by then is in {out / FILE_NAME}", EXIT_INTERRUPTED)
    finally:
        progress.close()
    _write_reports(document, out)
    click.echo(json.dumps(document, indent=1) if options["as_json"] else _summary(document, out))
    for why in dict.fromkeys(failure["why"] for failure in document["failures"] if failure["whose"] != "subject"):
        click.echo(f"sinkproof: {why}", err=True)
    sys.exit(exit_status(document))


def default_budget(subjects: tuple[str, ...], shells: tuple[str, ...], *, everything: bool) -> float:
    from sinkproof.sink_adapters.service_pairs import SERVICE_PAIRS

    if everything:
        return BUDGET_SECONDS_OF_ALL
    if SERVICE_PAIRS.keys() & set(subjects):
        return BUDGET_SECONDS_ON_SERVICES
    return BUDGET_SECONDS_ON_SPARK if "spark" in shells else BUDGET_SECONDS


def _shells(asked: str | None, *, everything: bool) -> tuple[str, ...]:
    """Spark where it was asked for, which then must be there, and wherever it is there to certify everything."""
    from sinkproof.certifier.certify import SHELLS, WITHOUT_SPARK
    from sinkproof.cli.spark_there import why_no_spark

    wanted = {None: SHELLS if everything else WITHOUT_SPARK, "all": SHELLS}.get(asked, (asked or "",))
    problem = why_no_spark() if "spark" in wanted else ""
    if problem and asked is not None:
        raise ContractError(problem)
    if problem:
        click.echo(f"sinkproof: the Spark shell is left out: {problem}", err=True)
    return tuple(shell for shell in wanted if shell != "spark" or not problem)


def _last_soak() -> Sequence[Measurement]:
    """What cannot be read is said, and keeps nobody from certifying."""
    from sinkproof.certifier.soak_measurements import SUMMARY, soak_measurements

    try:
        return soak_measurements(SUMMARY)
    except DocumentError as error:
        click.echo(f"sinkproof: {error}", err=True)
        return ()


def _command_locator(command_line: str, reader: str | None, claims: str) -> str:
    from sinkproof.subject.command_contract import locator

    if reader is None:
        raise ContractError("--command needs --reader: a command that prints the rows an independent reader sees")
    return locator(command_line, reader, claims)


def _embedded() -> list[str]:
    from sinkproof.sink_adapters.registry import PAIRS

    return [name for name in PAIRS if not name.endswith("-parquet")]


def _new_folder() -> Path:
    from datetime import datetime

    home = Path(".sinkproof")
    out = home / datetime.now().strftime("%Y%m%d-%H%M%S-%f")
    try:
        out.mkdir(parents=True)
        latest = home / f".latest-{out.name}"  # other commands may make theirs at the same moment
        latest.symlink_to(out.name)
        latest.replace(home / "latest")
    except OSError as error:
        raise DocumentError(
            f"cannot make the folder {out}",
            evidence=str(error),
            next_step="Name a folder that can be written with --out",
        ) from error
    return out


def progress_on(*, quiet: bool) -> Any:
    from sinkproof.reports.progress import open_progress

    return open_progress(sys.stderr, clock=now, quiet=quiet)


def _write_reports(document: Document, out: Path) -> None:
    from sinkproof.reports import junit, markdown, page

    renderers = {"report.html": page.render, "junit.xml": junit.render, "summary.md": markdown.render}
    for name, render in renderers.items():
        try:
            replace_file(out / name, render(document))
        except OSError as error:
            raise DocumentError(
                f"cannot write the report {out / name}",
                evidence=str(error),
                next_step=f"Free some space; `sinkproof report {out}` makes it again from the certificate",
            ) from error


def _summary(document: Document, out: Path) -> str:
    import shutil

    from sinkproof.reports import terminal

    width = shutil.get_terminal_size((120, 24)).columns
    text = terminal.render(document, width=width, color=sys.stdout.isatty())
    return f"{text.rstrip()}\n\nReport: {out / 'report.html'}"


@click.command()
@click.option("--on", "shell", type=TRIAL_CHOICE, default="simulated", show_default=True)
@click.option("--json", "as_json", is_flag=True)
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def canaries(shell: str, as_json: bool, quiet: bool) -> None:
    """Try every canary and every control: the kill table.

    Exit status 0 if all canaries and no controls are convicted.
    """
    from sinkproof.canaries.kill_table import render
    from sinkproof.certifier.certify import try_canaries

    progress = progress_on(quiet=quiet)
    try:
        results, blind = try_canaries(_shells(shell, everything=False), progress=progress)
    finally:
        progress.close()
    if as_json:
        click.echo(json.dumps({"canaries": results, "blind": blind}, indent=1))
    else:
        click.echo(render(results))
        for reason in blind:
            click.echo(f"BLIND: {reason}", err=True)
    sys.exit(Verdict.UNKNOWN.exit_code if blind else 0)
