"""What every command of `sinkproof run` does: runs one pipeline in one folder, and prints how it ended."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from sinkproof.chaos.clock import now
from sinkproof.cli.exit_status import leave
from sinkproof.judging.verdict_and_exit_codes import EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_USAGE

if TYPE_CHECKING:
    from sinkproof.pipeline.output_folder import PipelineFolder
    from sinkproof.pipeline.pipeline_runner import PipelineOutcome, Runnable

OURS: Final = {  # settings that a user may not change, and what to do instead
    "spark.master": ": name it with --master",
    "spark.python.daemon.module": "",
    "spark.submit.deployMode": "",
    "spark.task.maxFailures": "",
}
UNAVAILABLE: Final = "SparkUnavailable: "  # how the driver begins its message about what it lacks


class Milliseconds(click.ParamType[int]):
    """A time: 50ms, 2s, 1m; a bare number means seconds, as in every command."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", str(value))
        factor = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
        milliseconds = round(float(match[1]) * factor[match[2] or "s"]) if match else 0
        if milliseconds < 1:
            self.fail(f"{value!r} is not a time of at least 1ms. Write 50ms, 2s, 1m", param, ctx)
        return milliseconds


class SparkSetting(click.ParamType[tuple[str, str]]):
    """NAME=VALUE, as for spark-submit."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        name, is_setting, wanted = str(value).partition("=")
        if not (is_setting and name.startswith("spark.")):
            self.fail(f"{value!r} is no setting of Spark. Write spark.NAME=VALUE", param, ctx)
        if name in OURS:
            self.fail(f"{name} is for sinkproof to set{OURS[name]}", param, ctx)
        return name, wanted


def run_pipeline(
    path: Path, make: Callable[[PipelineFolder], Runnable], *, options: Mapping[str, Any], output: str
) -> NoReturn:
    """The whole command. `path`: the folder of the job; `output`: where its rows go, in words."""
    from sinkproof.pipeline.output_folder import PipelineError, locked
    from sinkproof.reference_engine.dataflow.replayable_sources import InputError
    from sinkproof.reference_engine.shells.spark.driver_supervisor import SparkFailed

    try:
        with locked(path.absolute(), checkpoints=url_in(options)) as folder:
            outcome = _run(make(folder), folder, options)
    except (PipelineError, InputError) as error:
        leave(str(error), EXIT_USAGE)
    except SparkFailed as error:
        missing = str(error).startswith(UNAVAILABLE)
        leave(str(error).removeprefix(UNAVAILABLE), EXIT_USAGE if missing else EXIT_INTERNAL)
    except OSError as error:
        leave(f"{error}. Committed rows stay. When the cause is removed, the same command continues", EXIT_INTERNAL)
    except KeyboardInterrupt:
        leave(f"ended at once: the same command reads the rows since the last checkpoint again ({path})",
              EXIT_INTERRUPTED)  # fmt: skip
    click.echo(_as_json(outcome, path) if options["as_json"] else f"{_summary(outcome)}\nOutput {output}")
    sys.exit(0 if outcome.state == "complete" else EXIT_INTERRUPTED)


def url_in(options: Mapping[str, Any]) -> str:
    """Where --checkpoints names none, they are in the job's folder."""
    where = str(options["checkpoints"] or "")
    return where if "://" in where else ""


def _run(pipeline: Runnable, folder: PipelineFolder, options: Mapping[str, Any]) -> PipelineOutcome:
    from sinkproof.cli.pipeline_cluster import cluster_for
    from sinkproof.pipeline.pipeline_metrics import ServedMetrics
    from sinkproof.pipeline.pipeline_progress import open_line
    from sinkproof.pipeline.pipeline_runner import PipelineOutcome, prepare
    from sinkproof.pipeline.pipeline_runner import run as follow
    from sinkproof.subject.scratch import sweep_folders_of_the_dead

    beginning = prepare(pipeline, folder)
    if beginning.over:
        return PipelineOutcome(
            state="complete", rows=beginning.rows, rows_total=pipeline.total, rows_before=beginning.rows
        )
    sweep_folders_of_the_dead()
    progress = open_line(sys.stderr, clock=now, quiet=options["quiet"], as_json=options["log_format"] == "json")
    with ExitStack() as cleaning:
        if options["metrics_port"] is not None:
            progress = metrics = ServedMetrics(progress, port=options["metrics_port"])
            progress.say(f"metrics: {metrics.url}")
        cluster = cleaning.enter_context(cluster_for(pipeline, folder, options=options, say=progress.say))
        cleaning.callback(cluster.close)
        cleaning.callback(progress.close)
        progress.say("starting Spark")
        cluster.start()
        with Interrupts() as interrupts, cleaning.pop_all():  # a late Ctrl-C must not interrupt the cleanup
            return follow(
                *(pipeline, folder, cluster),
                beginning=beginning,
                progress=progress,
                stop_requested=lambda: interrupts.count > 0,
            )


class Interrupts:
    """Counts Ctrl-C and SIGTERM while the job runs. The first requests a stop; the second raises KeyboardInterrupt."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in (signal.SIGINT, signal.SIGTERM):
            # A background job of a shell ignores Ctrl-C, which is for another job.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._count)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if self.count > 1 else handler)

    def _count(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1:
            for each in self._before:
                signal.signal(each, signal.SIG_IGN)  # cleaning up must not be interrupted in turn
            raise KeyboardInterrupt


def _summary(outcome: PipelineOutcome) -> str:
    if outcome.state == "complete" and outcome.rows == outcome.rows_before:
        return f"Everything was committed already: {outcome.rows:,} rows"
    new = outcome.rows - outcome.rows_before
    head = (
        f"{new:,} rows in {outcome.seconds:.1f} s ({outcome.rows_per_second:,.0f} rows/s), "
        f"{outcome.checkpoints:,} checkpoints, {outcome.restarts:,} restarts"
    )
    if outcome.rows_before:
        head += f"; {outcome.rows:,} with those of earlier runs"
    if outcome.state == "complete":
        return head
    left = outcome.rows_total - outcome.rows
    return f"{head}\nStopped with a checkpoint, {left:,} rows before the end: the same command continues there"


def _as_json(outcome: PipelineOutcome, path: Path) -> str:
    summary = asdict(outcome) | {"rows_per_second": outcome.rows_per_second, "out": str(path)}
    return json.dumps(summary, indent=1)


OPTIONS: Final = (
    click.option(
        "--master",
        help="A Spark master with a slot for each task, also of `services start spark-cluster`; cluster:3 starts "
        "one of three hosts on this machine for this command.  "
        "[default: local, with enough slots]",
    ),
    click.option(
        "--parallelism", type=click.IntRange(1, 128), default=2, show_default=True, help="Subtasks of each operator."
    ),
    click.option(
        "--wait-for-executors",
        "executors_ms",
        type=Milliseconds(),
        default="60s",
        show_default=True,
        help="With a --master on other hosts: how long its executors may take to register.",
    ),
    click.option(
        "--conf",
        "settings",
        type=SparkSetting(),
        multiple=True,
        help="A setting of Spark, any number of times: spark.ui.enabled=true shows its UI.",
    ),
    click.option(
        "--metrics",
        "metrics_port",
        type=click.IntRange(0, 65_535),
        metavar="PORT",
        help="Serve metrics for Prometheus on this port of 127.0.0.1; 0: any free one.",
    ),
    click.option(
        "--log-format",
        type=click.Choice(("text", "json")),
        default="text",
        show_default=True,
        help="How progress is written to stderr.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON."),
    click.option("--quiet", is_flag=True, help="No progress on stderr."),
)
