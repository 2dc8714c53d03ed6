"""What commands share: groups of options, times as users write them, the choice of shells, progress on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from sinkproof.certifier.budget_text import LEAST, seconds_in
from sinkproof.chaos.clock import now
from sinkproof.subject.contract import ContractError

Command = Callable[..., Any]
SHELL_CHOICE: Final = click.Choice(["simulated", "process", "spark", "all"])


def with_options(options: Sequence[Callable[[Command], Command]]) -> Callable[[Command], Command]:
    """A decorator that adds these options, in the order in which --help lists them."""

    def decorated(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


class Seconds(click.ParamType[float]):
    """A time: 60, 60s, 5m, 1h."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return seconds_in(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Budget(Seconds):
    """A time, or `least`: 0."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return 0.0 if value == LEAST else super().convert(value, param, ctx)


def in_words(seconds: float) -> str:
    """The shortest form that `Seconds` reads: 4m, 10s."""
    return f"{seconds / 60:g}m" if seconds % 60 == 0 and seconds > 60 else f"{seconds:g}s"


def share_scratch_with(master: str) -> None:
    """The hosts of a cluster of `services start` see one folder of it, and not /tmp and /dev/shm of this machine."""
    from sinkproof.chaos.services.spark_cluster.standing_cluster import standing_cluster

    if (known := standing_cluster(master)) is not None:
        os.environ["SINKPROOF_SCRATCH"] = known.scratch


def shells_for(chosen: str | None, *, everything: bool) -> tuple[str, ...]:
    """Raises ContractError if Spark was chosen and cannot run here. Certifying everything leaves Spark out then."""
    from sinkproof.certifier.certify import SHELLS, WITHOUT_SPARK
    from sinkproof.cli.doctor import spark_problem

    wanted = {None: SHELLS if everything else WITHOUT_SPARK, "all": SHELLS}.get(chosen, (chosen or "",))
    problem = spark_problem() if "spark" in wanted else ""
    if problem and chosen is not None:
        raise ContractError(problem)
    if problem:
        click.echo(f"sinkproof: the Spark shell is left out: {problem}", err=True)
    return tuple(shell for shell in wanted if shell != "spark" or not problem)


def progress_on(*, quiet: bool) -> Any:
    from sinkproof.reports.progress import open_progress

    return open_progress(sys.stderr, clock=now, quiet=quiet)
