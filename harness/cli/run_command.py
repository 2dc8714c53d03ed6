"""`sinkproof run`: a pipeline on Spark, from a user's files into a registered sink; topics: run_topics_commands.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sinkproof.cli.exit_status import leave
from sinkproof.cli.pipeline_command import Milliseconds, options_of_all, run_pipeline
from sinkproof.cli.run_topics_commands import etl, windows
from sinkproof.judging.verdict import EXIT_USAGE

if TYPE_CHECKING:
    from sinkproof.pipeline.pipeline_runner import Pipeline

SPLITS: Final = 2  # of generated input; not the parallelism, with which a job may go on otherwise


@click.group()
def run() -> None:
    """Run a pipeline on Spark: exactly once, whatever dies.

    Ctrl-C stops it with a checkpoint; the same command goes on from there, and from wherever else it ended.
    """


for command in (etl, windows):
    run.add_command(command)


@run.command()
@click.option("--rows", multiple=True, help="JSON lines or Parquet: a file, a folder, or a quoted pattern.")
@click.option("--generate", type=click.IntRange(1, 1 << 40), help="Instead of --rows: so many made-up ones (even).")
@click.option("--seed", type=int, default=0, show_default=True, help="With --generate: other rows.")
@click.option("--key", help="With --rows: the column to count by.")
@click.option("--sink", default="files/two-phase", show_default=True, help="One of `sinkproof table --registered`.")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="Folder of the output: one job, one folder."
)
@click.option("--checkpoint-interval", "interval_ms", type=Milliseconds(), default="50ms", show_default=True)
@click.option("--batch-rows", type=click.IntRange(1, 1_000_000), default=10_000, show_default=True)
@options_of_all
def count(**options: Any) -> None:
    """Count rows by key: one row out for each row in, its value the count so far.

    Exit status: 0 everything is committed, 130 stopped with a checkpoint, 3 bad arguments or input, 4 it failed.
    """
    from sinkproof.pipeline.output_folder import PipelineError
    from sinkproof.sink_adapters.registry import PAIRS

    try:
        _refuse_unknown(options)
    except PipelineError as error:
        leave(str(error), EXIT_USAGE)
    run_pipeline(
        options["out"],
        lambda folder: _pipeline(options, folder.earlier() or {}),
        options=options,
        output=f"({PAIRS[options['sink']].grade}): {options['out']}",
    )


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    from sinkproof.pipeline.output_folder import PipelineError
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
    from sinkproof.pipeline.pipeline_runner import Pipeline
    from sinkproof.reference_engine.dataflow.replayable_sources import Input

    job = {"command": "count", "sink": options["sink"], "key": options["key"]}
    source: Input
    if options["rows"]:
        from sinkproof.reference_engine.inputs.file_input import FileInput

        source = FileInput(
            options["rows"],
            key=options["key"],
            value=options["key"],  # which the count replaces: whole records are read ten times more slowly
            batch_rows=options["batch_rows"],
            earlier=earlier.get("files", ()) if earlier.get("key") == options["key"] else (),
        )
        job |= {"input": "files", "files": source.manifest}
    else:
        from sinkproof.reference_engine.dataflow.columns import GeneratedColumns

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
