"""`sinkproof run count`: a pipeline on Spark, from a user's files into a registered sink."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sinkproof.cli.command_parts import with_options
from sinkproof.cli.exit_status import leave
from sinkproof.cli.pipeline_run import OPTIONS, Milliseconds, run_pipeline
from sinkproof.cli.run_topics_command import etl, windows
from sinkproof.judging.verdict_and_exit_codes import EXIT_USAGE

if TYPE_CHECKING:
    from sinkproof.pipeline.pipeline_runner import Pipeline

SPLITS: Final = 2  # of generated input. Not the parallelism: a job may continue with another one


def _url(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value and "://" not in value:
        raise click.BadParameter(f"{value!r} is no URL. Write s3://BUCKET/FOLDER; without it, they are in --out")
    return value


@click.group()
def run() -> None:
    """Run a pipeline on Spark, exactly once, whichever process dies.

    Ctrl-C stops it with a checkpoint. The same command continues there, also after any other ending.
    """


for command in (etl, windows):
    run.add_command(command)


@run.command()
@click.option("--rows", multiple=True, help="JSON lines or Parquet: a file, a folder, or a quoted pattern.")
@click.option(
    "--generate",
    type=click.IntRange(1, 1 << 40),
    help="Instead of --rows: generate so many rows (rounded up to an even number).",
)
@click.option("--seed", type=int, default=0, show_default=True, help="With --generate: another seed gives other rows.")
@click.option("--key", help="With --rows: the column by which rows are counted.")
@click.option(
    "--sink", default="files/two-phase", show_default=True, help="A pair that `sinkproof table --registered` lists."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder of the output. Each job needs a folder of its own.",
)
@click.option(
    "--checkpoints",
    metavar="URL",
    callback=_url,
    help="Where checkpoints are kept: s3://BUCKET/FOLDER, gs://..., az://...  [default: the folder of --out]",
)
@click.option(
    "--checkpoint-interval",
    "interval_ms",
    type=Milliseconds(),
    default="50ms",
    show_default=True,
    help="Time from one checkpoint to the next.",
)
@click.option(
    "--batch-rows", type=click.IntRange(1, 1_000_000), default=10_000, show_default=True, help="Rows of a batch."
)
@with_options(OPTIONS)
def count(**options: Any) -> None:
    """Count rows by key. Each input row yields one output row with the count so far.

    Exit status: 0 everything is committed, 130 stopped with a checkpoint, 3 bad arguments or input, 4 failure.
    """
    from sinkproof.sink_adapters.registry import PAIRS

    _refuse_unknown(options)
    run_pipeline(
        options["out"],
        lambda folder: _pipeline(options, folder.earlier() or {}),
        options=options,
        output=f"({PAIRS[options['sink']].grade}): {options['out']}",
    )


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    """Ends the command if something is missing or cannot be used."""
    from sinkproof.sink_adapters.registry import PAIRS

    names = [name for name in PAIRS if not name.startswith("memory/")]
    if options["sink"] in PAIRS and options["sink"] not in names:
        leave(f"{options['sink']} loses its rows when the process ends. Possible sinks: {', '.join(names)}", EXIT_USAGE)
    if options["sink"] not in names:
        leave(f"there is no sink {options['sink']!r}. Possible sinks: {', '.join(names)}", EXIT_USAGE)
    if bool(options["rows"]) == bool(options["generate"]):
        leave("say what to read: --rows PATH (any number of times) or --generate ROWS, one of the two", EXIT_USAGE)
    if options["rows"] and not options["key"]:
        leave("say what to count by: --key COLUMN", EXIT_USAGE)


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
            value=options["key"],  # the count replaces it; reading whole records is ten times slower
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
