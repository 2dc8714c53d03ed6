"""How commands end: by themselves, by a signal, by a message and an exit status."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

import click


class Terminated(BaseException):
    """SIGTERM: leave as after Ctrl-C, with everything cleaned up."""


def interrupt(signum: int, frame: object) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # cleaning up takes a second, and must not be interrupted in turn
    raise KeyboardInterrupt if signum == signal.SIGINT else Terminated


def leave(text: str, status: int) -> NoReturn:
    click.echo(f"sinkproof: {text}", err=True)
    sys.exit(status)
