"""How commands end: interrupted, with a message and an exit status, or because a service cannot be used."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

from sinkproof.judging.verdict_and_exit_codes import EXIT_INTERNAL, EXIT_USAGE


class Terminated(KeyboardInterrupt):
    """SIGTERM: the command cleans up and ends as after Ctrl-C."""


def interrupt(signum: int, frame: object) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # cleaning up takes a second and must not be interrupted in turn
    raise KeyboardInterrupt if signum == signal.SIGINT else Terminated


def leave(text: str, status: int) -> NoReturn:
    click.echo(f"sinkproof: {text}", err=True)
    sys.exit(status)


@contextmanager
def leave_on_service_errors() -> Iterator[None]:
    """What is missing is for the user to install: bad arguments. What failed is a failure of sinkproof."""
    from sinkproof.chaos.services.service import ServiceFailed, ServiceUnavailable

    try:
        yield
    except ServiceUnavailable as error:
        leave(str(error), EXIT_USAGE)
    except ServiceFailed as error:
        leave(str(error), EXIT_INTERNAL)
