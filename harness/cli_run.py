"""`sinkproof run`: a pipeline on Spark, from a user's files into a registered sink."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from sinkproof.chaos.clock import now
from sinkproof.verdict import EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_USAGE

if TYPE_CHECKING:
    from sinkproof.pipeline import Outcome, Pipeline
    from sinkproof.pipeline_folder import PipelineFolder

SPLITS: Final = 2  # of generated input; not the parallelism, with which a job may go on otherwise
RETRIES: Final = 100_000  # a killed worker is an ordinary event; Spark gives up after one in local mode
UNAVAILABLE: Final = "SparkUnavailable: "  # as the driver names what it lacks


class Milliseconds(click.ParamType[int]):
    """50ms, 2s, 1m; a bare number is seconds, as everywhere."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", str(value))
        factor = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
        milliseconds = round(float(match[1]) * factor[match[2] or "s"]) if match else 0
        if milliseconds < 1:
            self.fail(f"{value!r} is not a time of at least 1ms. Write 50ms, 2s, 1m", param, ctx)
        return milliseconds


@click.group()
def run() -> None:
    """Run a pipeline on Spark: exactly once, whatever dies.

    Ctrl-C stops it with a checkpoint; the same command goes on from there, and from wherever else it ended.
    """


@run.command()
@click.option("--rows", multiple=True, help="JSON lines or Parquet: a file, a folder, or a quoted pattern.")
@click.option("--generate", type=click.IntRange(1, 1 << 40), help="Instead of --rows: so many made-up ones (even).")
@click.option("--seed", type=int, default=0, show_default=True, help="With --generate: other rows.")
@click.option("--key", help="With --rows: the column to count by.")
@click.option("--sink", default="files/two-phase", show_default=True, help="A registered pair (see `sinkproof table`).")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="Folder of the output: one job, one folder."
)
@click.option("--master", help="Any Spark master with a slot for each task.  [default: local, as many as it takes]")
@click.option("--parallelism", type=click.IntRange(1, 128), default=2, show_default=True)
@click.option("--checkpoint-interval", "interval_ms", type=Milliseconds(), default="50ms", show_default=True)
@click.option("--batch-rows", type=click.IntRange(1, 1_000_000), default=10_000, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def count(**options: Any) -> None:
    """Count rows by key: one row out for each row in, its value the count so far.

    Exit status: 0 everything is committed, 130 stopped with a checkpoint, 3 bad arguments or input, 4 it failed.
    """
    from sinkproof.pipeline_folder import PipelineError, locked
    from sinkproof.reference_engine.shells.spark.cluster import SparkFailed
    from sinkproof.reference_engine.sources import InputError

    try:
        _refuse_unknown(options)
        out = options["out"].absolute()
        with locked(out) as folder:
            outcome = _run(_pipeline(options, folder.earlier() or {}), folder, options)
    except (PipelineError, InputError) as error:
        _leave(str(error), EXIT_USAGE)
    except SparkFailed as error:
        missing = str(error).startswith(UNAVAILABLE)
        _leave(str(error).removeprefix(UNAVAILABLE), EXIT_USAGE if missing else EXIT_INTERNAL)
    except OSError as error:
        _leave(f"{error}. What is committed stays; once it is mended, the same command goes on", EXIT_INTERNAL)
    except KeyboardInterrupt:
        _leave(f"ended at once: rows since the last checkpoint are read again by the same command ({options['out']})",
               EXIT_INTERRUPTED)  # fmt: skip
    click.echo(_as_json(outcome, options) if options["as_json"] else _summary(outcome, options))
    sys.exit(0 if outcome.state == "complete" else EXIT_INTERRUPTED)


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    from sinkproof.pipeline_folder import PipelineError
    from sinkproof.sink_adapters.registry import PAIRS

    names = [name for name in PAIRS if not name.startswith("memory/")]
    if options["sink"] in PAIRS and options["sink"] not in names:
        raise PipelineError(f"{options['sink']} forgets its rows with the process. There are: {', '.join(names)}")
    if options["sink"] not in names:
        raise PipelineError(f"there is no sink {options['sink']!r}. There are: {', '.join(names)}")
    if bool(options["rows"]) == bool(options["generate"]):
        raise PipelineError("say what to read: --rows PATH (any number of times) or --generate ROWS, one of the two")
    if options["rows"] and not options["key"]:
        raise PipelineError("say what to count by: --key COLUMN")


def _pipeline(options: Mapping[str, Any], earlier: Mapping[str, Any]) -> Pipeline:
    from sinkproof.pipeline import Pipeline
    from sinkproof.reference_engine.sources import Input

    job = {"command": "count", "sink": options["sink"], "key": options["key"]}
    source: Input
    if options["rows"]:
        from sinkproof.reference_engine.file_input import FileInput

        source = FileInput(
            options["rows"],
            key=options["key"],
            value=options["key"],  # which the count replaces: whole records are read ten times more slowly
            batch_rows=options["batch_rows"],
            earlier=earlier.get("files", ()) if earlier.get("key") == options["key"] else (),
        )
        job |= {"input": "files", "files": source.manifest}
    else:
        from sinkproof.reference_engine.columns import GeneratedColumns

        each = -(-options["generate"] // SPLITS)
        source = GeneratedColumns(
            seed=options["seed"], splits=SPLITS, rows_per_split=each, batch_rows=options["batch_rows"]
        )
        job |= {"input": f"{SPLITS * each} rows generated with seed {options['seed']}"}
    return Pipeline(
        source=source,
        sink=options["sink"],
        job=job,
        parallelism=options["parallelism"],
        interval_ms=options["interval_ms"],
    )


def _run(pipeline: Pipeline, folder: PipelineFolder, options: Mapping[str, Any]) -> Outcome:
    from sinkproof.pipeline import Outcome, prepare
    from sinkproof.pipeline import run as follow
    from sinkproof.pipeline_progress import open_line
    from sinkproof.reference_engine.shells.spark.cluster import Cluster
    from sinkproof.scratch import fresh_folder, sweep_folders_of_the_dead

    beginning = prepare(pipeline, folder)
    if beginning.over:
        return Outcome(state="complete", rows=beginning.rows, rows_total=pipeline.total, rows_before=beginning.rows)
    sweep_folders_of_the_dead()
    progress = open_line(sys.stderr, clock=now, quiet=options["quiet"])
    of_spark = fresh_folder()
    cluster = Cluster(folder=of_spark, master=_master(options["master"], pipeline.tasks))
    try:
        progress.say("starting Spark")
        cluster.start()
        with Interrupts() as interrupts:
            return follow(
                *(pipeline, folder, cluster),
                beginning=beginning,
                progress=progress,
                stop_wished=lambda: interrupts.count > 0,
            )
    finally:
        progress.close()
        cluster.close()
        shutil.rmtree(of_spark, ignore_errors=True)


def _master(given: str | None, tasks: int) -> str:
    master = given or f"local[{tasks}]"
    return re.sub(r"^local\[(\d+|\*)\]$", rf"local[\1,{RETRIES}]", master)


class Interrupts:
    """Counts Ctrl-C and SIGTERM while the job runs. The first asks for a stop; the second raises KeyboardInterrupt."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # a shell's background job: not for us
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if self.count > 1 else handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1:
            for each in self._before:
                signal.signal(each, signal.SIG_IGN)  # cleaning up must not be interrupted in turn
            raise KeyboardInterrupt


def _summary(outcome: Outcome, options: Mapping[str, Any]) -> str:
    from sinkproof.sink_adapters.registry import PAIRS

    if outcome.state == "complete" and outcome.rows == outcome.rows_before:
        head = f"Everything was committed already: {outcome.rows:,} rows"
    else:
        new = outcome.rows - outcome.rows_before
        head = (
            f"{new:,} rows in {outcome.seconds:.1f} s ({outcome.rows_per_second:,.0f} rows/s), "
            f"{outcome.checkpoints:,} checkpoints, {outcome.restarts:,} restarts"
        )
        if outcome.rows_before:
            head += f"; {outcome.rows:,} with those of earlier runs"
    lines = [head]
    if outcome.state == "stopped":
        left = outcome.rows_total - outcome.rows
        lines.append(f"Stopped with a checkpoint, {left:,} rows before the end: the same command goes on from there")
    return "\n".join([*lines, f"Output ({PAIRS[options['sink']].grade}): {options['out']}"])


def _as_json(outcome: Outcome, options: Mapping[str, Any]) -> str:
    told = asdict(outcome) | {"rows_per_second": outcome.rows_per_second, "out": str(options["out"])}
    return json.dumps(told, indent=1)


def _leave(text: str, status: int) -> NoReturn:
    click.echo(f"sinkproof: {text}", err=True)
    sys.exit(status)
