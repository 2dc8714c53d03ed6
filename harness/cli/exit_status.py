"""How commands end: which exit status each kind of error has. A traceback is printed only for a bug in sinkproof."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from typing import Final, NoReturn

import click

from sinkproof.chaos.entry_points import RegistrationError
from sinkproof.chaos.schedule import ScheduleError
from sinkproof.chaos.services.service import ServiceFailed, ServiceUnavailable
from sinkproof.judging.verdict_and_exit_codes import EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_USAGE
from sinkproof.reports.document import DocumentError
from sinkproof.subject.contract import ContractError

DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
# What is given wrongly or missing is for the user to correct; what failed is a failure of sinkproof.
FOR_THE_USER: Final = (ContractError, ScheduleError, DocumentError, RegistrationError, ServiceUnavailable)


class Terminated(KeyboardInterrupt):
    """SIGTERM: the command cleans up and ends as after Ctrl-C."""


def interrupt(signum: int, frame: object) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # cleaning up takes a second and must not be interrupted in turn
    raise KeyboardInterrupt if signum == signal.SIGINT else Terminated


def leave(text: str, status: int) -> NoReturn:
    click.echo(f"sinkproof: {text}", err=True)
    sys.exit(status)


def _is_disk_full(error: BaseException) -> bool:
    cause = error.__cause__
    return isinstance(error, DocumentError) and isinstance(cause, OSError) and cause.errno in DISK_FULL


def leave_after(error: BaseException) -> NoReturn:
    """Ends the command that raised this."""
    if isinstance(error, click.exceptions.Exit):
        sys.exit(error.exit_code)
    if isinstance(error, (click.exceptions.Abort, KeyboardInterrupt)):
        leave("interrupted", EXIT_INTERRUPTED)
    if isinstance(error, click.ClickException):
        error.show()
        sys.exit(EXIT_USAGE)
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_INTERNAL)
    if isinstance(error, ServiceFailed) or _is_disk_full(error):
        leave(str(error), EXIT_INTERNAL)
    if isinstance(error, FOR_THE_USER):
        leave(str(error), EXIT_USAGE)
    leave(f"this is a bug in sinkproof, please report it:\n{''.join(traceback.format_exception(error))}", EXIT_INTERNAL)
