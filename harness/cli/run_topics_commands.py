"""`sinkproof run etl` and `sinkproof run windows`: pipelines on Spark, from one Kafka topic to another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sinkproof.cli.pipeline_command import Milliseconds, options_of_all, run_pipeline

if TYPE_CHECKING:
    from sinkproof.pipeline.output_folder import PipelineFolder
    from sinkproof.pipeline.pipeline_runner import Runnable

STRATEGIES: Final = ("two-phase", "plain")
EXTERNAL: Final = "external:"


class Topic(click.ParamType[str]):
    """kafka:NAME."""

    name = "kafka:topic"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        kind, _, topic = str(value).partition(":")
        if kind != "kafka" or not topic:
            self.fail(f"{value!r} names no topic. Write kafka:NAME", param, ctx)
        return topic


OPTIONS: Final = (
    click.option("--from", "topic_from", type=Topic(), required=True, help="Topic to read, from its first record on."),
    click.option("--to", "topic_to", type=Topic(), required=True, help="Topic to write; made if it is missing."),
    click.option("--kafka", "address", help="HOST:PORT.  [default: the one of `sinkproof services start kafka`]"),
    click.option("--sink", "strategy", type=click.Choice(STRATEGIES), default="two-phase", show_default=True),
    click.option("--until-end", is_flag=True, help="End where the topic ends now; else go on until Ctrl-C."),
    click.option(
        "--commit-offsets-on-checkpoints/--no-commit-offsets",
        "commits_offsets",
        default=True,
        show_default=True,
        help="Tell the group how far complete checkpoints are: for monitoring, never for recovery.",
    ),
    click.option("--group", default="", help="Of these offsets.  [default: sinkproof-COMMAND-TO]"),
    click.option(
        "--checkpoints",
        type=click.Path(path_type=Path),
        help="Folder; it makes this one job.  [default: .sinkproof/COMMAND-FROM-TO]",
    ),
    click.option("--checkpoint-interval", "interval_ms", type=Milliseconds(), default="200ms", show_default=True),
    click.option("--batch-rows", type=click.IntRange(1, 100_000), default=2000, show_default=True),
)


def topic_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(OPTIONS):
        command = option(command)
    return options_of_all(command)


@click.command()
@click.option("--transform", default="", help="FILE.py:FUNCTION, from each value (bytes) to another one, or None.")
@topic_options
def etl(transform: str, **options: Any) -> None:
    """Move records from topic to topic, exactly once for read_committed readers.

    Keys, timestamps and headers stay as they are. Ctrl-C stops it with a checkpoint; the same command goes on from
    there, and from wherever else it ended.
    """
    file, _, name = transform.rpartition(":")
    if file.endswith(".py"):
        transform = f"{Path(file).absolute()}:{name}"  # Spark's workers are elsewhere
    _run("etl", options, transform=transform)


@click.command()
@click.option("--size", "size_ms", type=Milliseconds(), required=True, help="Of each window, in event time.")
@click.option("--out-of-order", "out_of_order_ms", type=Milliseconds(), default="1s", show_default=True)
@click.option("--idle-after", "idle_after_ms", type=Milliseconds(), default="1s", show_default=True)
@topic_options
def windows(size_ms: int, out_of_order_ms: int, idle_after_ms: int, **options: Any) -> None:
    """Count records per key and window of event time: one record out for each window that is over.

    Event time is the record's timestamp. A record that comes more than --out-of-order after newer ones of its partition
    may be late, and is then dropped. A partition without records for --idle-after holds nobody back.
    """
    _run("windows", options, size_ms=size_ms, out_of_order_ms=out_of_order_ms, idle_after_ms=idle_after_ms)


def _run(command: str, options: dict[str, Any], **parts: Any) -> None:
    topic_from, topic_to = options["topic_from"], options["topic_to"]
    path = options["checkpoints"] or Path(".sinkproof") / f"{command}-{topic_from}-{topic_to}"

    def make(folder: PipelineFolder) -> Runnable:
        from sinkproof.pipeline import topic_pipeline as pipeline_topics
        from sinkproof.pipeline import topic_recipes as pipeline_topic_jobs

        names = pipeline_topics.Wanted.__slots__
        return pipeline_topics.TopicPipeline(
            pipeline_topics.Wanted(
                command=command,
                recipe=getattr(pipeline_topic_jobs, command.upper()),
                endpoint=_endpoint(options["address"]),
                **{name: value for name, value in options.items() if name in names},
                parts=parts,
            ),
            folder,
        )

    grade = {"two-phase": "exactly-once for read_committed readers", "plain": "at-least-once"}[options["strategy"]]
    run_pipeline(path, make, options=options, output=f"({grade}): kafka:{topic_to}")


def _endpoint(address: str | None) -> str:
    from sinkproof.pipeline.output_folder import PipelineError
    from sinkproof.subject.kafka_service import kafka_service

    if address:
        return address.removeprefix(EXTERNAL)
    try:
        return kafka_service(start=False).endpoint
    except LookupError:
        raise PipelineError(
            "no Kafka runs here. Name one with --kafka HOST:PORT, or run: sinkproof services start kafka"
        ) from None
