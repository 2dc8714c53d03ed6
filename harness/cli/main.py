"""The command line: the group of all commands, and the exit status for each kind of error.

stdout carries the result, stderr everything else.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
import warnings
from typing import NoReturn

import click

from sinkproof.chaos.schedule import ScheduleError
from sinkproof.cli.canaries_command import canaries
from sinkproof.cli.certify_command import certify
from sinkproof.cli.compare_command import compare
from sinkproof.cli.doctor_command import doctor
from sinkproof.cli.exit_status import Terminated, interrupt, leave
from sinkproof.cli.explain_command import explain
from sinkproof.cli.replay_command import replay
from sinkproof.cli.report_command import report
from sinkproof.cli.run_command import run
from sinkproof.cli.services_command import services
from sinkproof.cli.table_command import table
from sinkproof.judging.verdict_and_exit_codes import EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_USAGE
from sinkproof.reports.document import DocumentError
from sinkproof.subject.contract import ContractError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="sinkproof")
def cli() -> None:
    """Certifies that a sink delivers every row exactly once, by crashing it everywhere it can crash.

    \b
    sinkproof certify files/two-phase            a registered pair, in every shell
    sinkproof certify my_sink.py:MyContract      your own sink
    sinkproof replay 'SCHEDULE' SUBJECT          one finding again, exactly
    sinkproof canaries                           whether the certifier itself can be trusted

    Exit status: 0 upheld, 1 violated, 2 unknown, 3 bad arguments, 4 failure of sinkproof, 130 interrupted.
    """


for command in (certify, replay, canaries, table, explain, report, compare, run, services, doctor):
    cli.add_command(command)


def main() -> NoReturn:
    """The console command. A traceback is printed only for a bug in sinkproof."""
    if sys.flags.optimize:
        warnings.filterwarnings("ignore", message="assertions not in test modules")
    signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # in the background of a shell, Ctrl-C is for another job
        signal.signal(signal.SIGINT, interrupt)
    try:
        cli.main(standalone_mode=False)
        sys.exit(0)
    except (click.exceptions.Abort, KeyboardInterrupt, Terminated):
        leave("interrupted", EXIT_INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except DocumentError as error:
        full = isinstance(error.__cause__, OSError) and error.__cause__.errno in DISK_FULL
        leave(str(error), EXIT_INTERNAL if full else EXIT_USAGE)
    except (ContractError, ScheduleError) as error:
        leave(str(error), EXIT_USAGE)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_INTERNAL)
    except Exception:  # the border: exit status 1 would look like a verdict
        leave(f"this is a bug in sinkproof, please report it:\n{traceback.format_exc()}", EXIT_INTERNAL)
