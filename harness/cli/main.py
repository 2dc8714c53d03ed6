"""The command line: the group of all commands. exit_status.py has the exit status for each kind of error.

stdout carries the result, stderr everything else.
"""

from __future__ import annotations

import signal
import sys
import warnings
from difflib import get_close_matches
from typing import NoReturn

import click

import sinkproof.chaos.faults  # noqa: F401  # loads those of other packages, which are refused if they are broken
from sinkproof.chaos.entry_points import refuse_what_cannot_be_used
from sinkproof.cli.canaries_command import canaries
from sinkproof.cli.certify_command import certify
from sinkproof.cli.compare_command import compare
from sinkproof.cli.doctor_command import doctor
from sinkproof.cli.exit_status import interrupt, leave_after
from sinkproof.cli.explain_command import explain
from sinkproof.cli.init_command import init
from sinkproof.cli.replay_command import replay
from sinkproof.cli.report_command import report
from sinkproof.cli.run_command import run
from sinkproof.cli.schema_command import schema
from sinkproof.cli.services_command import services
from sinkproof.cli.table_command import table


class Commands(click.Group):
    """Offers the command that looks most like one that does not exist."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = get_close_matches(args[0], self.commands, n=1)
            others = f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(self.commands)}."
            raise click.UsageError(f"{error.message} {others}", ctx) from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="sinkproof")
def cli() -> None:
    """Certifies that a sink delivers every row exactly once, by crashing it everywhere it can crash.

    \b
    sinkproof init my_sink.py:MySink             writes a contract, a test and a CI workflow to begin with
    sinkproof certify files/two-phase            a registered pair, in every shell
    sinkproof certify my_sink.py:MyContract      your own sink
    sinkproof replay 'SCHEDULE' SUBJECT          one finding again, exactly
    sinkproof canaries                           whether the certifier itself can be trusted

    Exit status: 0 upheld, 1 violated, 2 unknown, 3 bad arguments, 4 failure of sinkproof, 130 interrupted.
    """


for command in (init, certify, replay, canaries, table, explain, report, compare, schema, run, services, doctor):
    cli.add_command(command)


def main() -> NoReturn:
    """The console command."""
    if sys.flags.optimize:
        warnings.filterwarnings("ignore", message="assertions not in test modules")
    signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # in the background of a shell, Ctrl-C is for another job
        signal.signal(signal.SIGINT, interrupt)
    try:
        refuse_what_cannot_be_used()
        cli.main(standalone_mode=False)
        sys.exit(0)
    except (Exception, KeyboardInterrupt) as error:  # the border: exit status 1 would look like a verdict
        leave_after(error)
