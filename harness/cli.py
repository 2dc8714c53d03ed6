"""The command line: `sinkproof certify`, `replay`, `canaries`, `table`, `report`.

stdout is the artefact, stderr is talk.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any, NoReturn

import click

from sinkproof.chaos.clock import now
from sinkproof.chaos.schedule import ScheduleError
from sinkproof.cli_run import run as run_pipeline
from sinkproof.contract import ContractError
from sinkproof.reports.document import FILE_NAME, Document, DocumentError, replace_file
from sinkproof.verdict import EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_USAGE, Verdict

BUDGET_SECONDS = 40.0  # enough for every step and every line of a file sink to be killed, and for its closure
BUDGET_SECONDS_OF_ALL = 7.0  # enough for every step of a built-in pair; a busy machine gets more
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
SHELL_CHOICE = click.Choice(["simulated", "process", "spark", "all"])


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


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="sinkproof")
def cli() -> None:
    """Certifies that a sink delivers every row exactly once, by crashing it everywhere it can crash.

    \b
    sinkproof certify files/two-phase            a registered pair, in every shell
    sinkproof certify my_sink.py:MyContract      your own sink
    sinkproof replay 'SCHEDULE' SUBJECT          one finding again, exactly
    sinkproof canaries                           what the certifier itself is worth

    Exit status: 0 upheld, 1 violated, 2 unknown, 3 bad arguments, 4 our own failure, 130 interrupted.
    """


cli.add_command(run_pipeline)


@cli.command()
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
@click.option("--budget", type=Seconds(), help="Time per subject and shell.  [default: 40s; 7s to certify everything]")
@click.option(
    "--hang", type=Seconds(), default="10s", show_default=True, help="After so long a call to the sink counts as hung."
)
@click.option("--no-canaries", is_flag=True, help="Skip the certifier's own trial; the certificate says so.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def certify(subjects: tuple[str, ...], command_line: str | None, reader: str | None, **options: Any) -> None:
    """Crash a sink everywhere and say what it delivered.

    SUBJECTS are registered pairs (see `sinkproof table`), path/to/file.py:Contract or package.module:Contract.
    Without any: every pair that needs nothing but this machine's memory and files.
    """
    from sinkproof.certifying import Options, exit_status
    from sinkproof.certifying import certify as run

    locators = list(subjects) or ([] if command_line else _embedded())
    if command_line:
        locators.append(_command_locator(command_line, reader, options["claims"]))
    shells = ("process",) if command_line else _shells(options["shell"], everything=not subjects)
    out = options["out"] or _new_folder()
    chosen = Options(
        shells=shells,
        master=options["master"],
        budget_seconds=options["budget"] or (BUDGET_SECONDS if subjects or command_line else BUDGET_SECONDS_OF_ALL),
        seed=options["seed"],
        canaries=not options["no_canaries"],
        hang_seconds=options["hang"],
    )
    progress = _progress(quiet=options["quiet"])
    try:
        document = run(locators, out, options=chosen, progress=progress)
    except (KeyboardInterrupt, Terminated):
        progress.close()
        _leave(f"interrupted: what was found by then is in {out / FILE_NAME}", EXIT_INTERRUPTED)
    finally:
        progress.close()
    _write_reports(document, out)
    click.echo(json.dumps(document, indent=1) if options["as_json"] else _summary(document, out))
    for why in dict.fromkeys(failure["why"] for failure in document["failures"] if failure["whose"] != "subject"):
        click.echo(f"sinkproof: {why}", err=True)
    sys.exit(exit_status(document))


def _shells(asked: str | None, *, everything: bool) -> tuple[str, ...]:
    """Spark where it was asked for, which then must be there, and wherever it is there to certify everything."""
    from sinkproof.certifying import SHELLS, WITHOUT_SPARK
    from sinkproof.spark_there import why_no_spark

    wanted = {None: SHELLS if everything else WITHOUT_SPARK, "all": SHELLS}.get(asked, (asked or "",))
    problem = why_no_spark() if "spark" in wanted else ""
    if problem and asked is not None:
        raise ContractError(problem)
    if problem:
        click.echo(f"sinkproof: the Spark shell is left out: {problem}", err=True)
    return tuple(shell for shell in wanted if shell != "spark" or not problem)


def _command_locator(command_line: str, reader: str | None, claims: str) -> str:
    from sinkproof.command_contract import locator

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
        latest = home / "latest"
        latest.unlink(missing_ok=True)
        latest.symlink_to(out.name)
    except OSError as error:
        raise DocumentError(
            f"cannot make the folder {out}",
            evidence=str(error),
            next_step="Name a folder that can be written with --out",
        ) from error
    return out


def _progress(*, quiet: bool) -> Any:
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


@cli.command()
@click.argument("schedule")
@click.argument("subject")
@click.option(
    "--on", "shell", type=click.Choice(["simulated", "process", "spark"]), default="simulated", show_default=True
)
@click.option("--json", "as_json", is_flag=True, help="Print what happened as JSON.")
@click.option("--log", is_flag=True, help="Print the event log, too.")
@click.option("--as-test", is_flag=True, help="Print a pytest function that does the same.")
@click.option("--here", is_flag=True, help="Run the sink in this very process, where breakpoint() and print() work.")
def replay(schedule: str, subject: str, **options: Any) -> None:
    """Run one SCHEDULE on one SUBJECT again, exactly.

    Exit status 1 if it goes wrong, 0 if not, 2 if it never struck or came to no result.
    """
    from sinkproof.replaying import ReplayFailed, told
    from sinkproof.replaying import replay as run

    try:
        outcome = run(schedule, subject, shell=options["shell"], here=options["here"])
    except ReplayFailed as error:
        _leave(str(error), EXIT_INTERNAL if error.ours else Verdict.UNKNOWN.exit_code)
    if options["as_test"]:
        from sinkproof.as_test import as_test

        click.echo(as_test(outcome, shell=options["shell"]))
    else:
        click.echo(json.dumps(outcome.document, indent=1) if options["as_json"] else told(outcome, log=options["log"]))
    sys.exit(outcome.verdict.exit_code)


@cli.command()
@click.option("--on", "shell", type=SHELL_CHOICE, default="simulated", show_default=True)
@click.option("--json", "as_json", is_flag=True)
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def canaries(shell: str, as_json: bool, quiet: bool) -> None:
    """Try every canary and every control: the kill table.

    Exit status 0 if all canaries and no controls are convicted.
    """
    from sinkproof.certifying import try_canaries

    progress = _progress(quiet=quiet)
    try:
        results, blind = try_canaries(_shells(shell, everything=False), progress=progress)
    finally:
        progress.close()
    if as_json:
        click.echo(json.dumps({"canaries": results, "blind": blind}, indent=1))
    else:
        for row in results:
            state = "convicted" if row["convicted"] else "not convicted"
            kind = "control" if row["control"] else row["root_cause"]
            click.echo(f"{kind:8} {row['shell']:10} {state:14} {row['seconds']:7.3f} s  {row['name']}: "
                       f"{row['oracle'] or ''} {row['schedule'] or ''}")  # fmt: skip
        for reason in blind:
            click.echo(f"BLIND: {reason}", err=True)
    sys.exit(Verdict.UNKNOWN.exit_code if blind else 0)


@cli.command()
@click.option("--json", "as_json", is_flag=True)
def table(as_json: bool) -> None:
    """List the registered pairs: strategy and target, what each claims, the grade expected."""
    from sinkproof.sink_adapters.registry import PAIRS

    rows = [
        {"name": name, "claims": list(pair.claims), "grade": pair.grade, "what": pair.sentence}
        for name, pair in PAIRS.items()
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        click.echo(f"{row['name']:26} {row['grade']:18} {' + '.join(row['claims'])}\n{'':26} {row['what']}")


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--format", "kind", type=click.Choice(["text", "markdown", "html", "junit"]), default="text")
def report(folder: Path, kind: str) -> None:
    """Render the certificate in FOLDER again. Exit status is the verdict's."""
    from sinkproof.reports import junit, markdown, page, terminal
    from sinkproof.reports.document import load

    document = load(folder)
    render = {"text": terminal.render, "markdown": markdown.render, "html": page.render, "junit": junit.render}[kind]
    click.echo(render(document))
    sys.exit(Verdict(document["verdict"]).exit_code)


class Terminated(BaseException):
    """SIGTERM: leave as after Ctrl-C, with everything cleaned up."""


def _interrupt(signum: int, frame: object) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # cleaning up takes a second, and must not be interrupted in turn
    raise KeyboardInterrupt if signum == signal.SIGINT else Terminated


def main() -> NoReturn:
    """The console command. Never a traceback for what somebody else did wrong."""
    if sys.flags.optimize:
        warnings.filterwarnings("ignore", message="assertions not in test modules")
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a shell's background job: not for us
        signal.signal(signal.SIGINT, _interrupt)
    try:
        cli.main(standalone_mode=False)
        sys.exit(0)
    except click.exceptions.Abort:
        _leave("interrupted", EXIT_INTERRUPTED)
    except (KeyboardInterrupt, Terminated):
        _leave("interrupted", EXIT_INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except DocumentError as error:
        full = isinstance(error.__cause__, OSError) and error.__cause__.errno in DISK_FULL
        _leave(str(error), EXIT_INTERNAL if full else EXIT_USAGE)
    except (ContractError, ScheduleError) as error:
        _leave(str(error), EXIT_USAGE)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_INTERNAL)
    except Exception:  # the border: exit status 1 would look like a verdict
        _leave(f"this is a bug in sinkproof, please report it:\n{traceback.format_exc()}", EXIT_INTERNAL)


def _leave(text: str, status: int) -> NoReturn:
    click.echo(f"sinkproof: {text}", err=True)
    sys.exit(status)
