"""`sinkproof run etl` and `sinkproof run windows`: pipelines on Spark, from one Kafka topic to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sinkproof.cli.command_parts import with_options
from sinkproof.cli.pipeline_run import OPTIONS, Milliseconds, run_pipeline, url_in

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


OF_TOPICS: Final = (
    *OPTIONS,
    click.option("--from", "topic_from", type=Topic(), required=True, help="Topic to read, from its first record on."),
    click.option(
        "--to", "topic_to", type=Topic(), required=True, help="Topic to write. It is created if it is missing."
    ),
    click.option(
        "--kafka",
        "address",
        help="HOST:PORT[@FILE] of the brokers. FILE: TLS and SASL settings, as client.properties for Kafka's own "
        "tools, on each host at this path.  [default: those of `sinkproof services start kafka`]",
    ),
    click.option(
        "--sink",
        "strategy",
        type=click.Choice(STRATEGIES),
        default="two-phase",
        show_default=True,
        help="How rows are written: in transactions (exactly once), or at once (at least once).",
    ),
    click.option("--until-end", is_flag=True, help="Stop where the topic ends now, instead of running until Ctrl-C."),
    click.option(
        "--commit-offsets-on-checkpoints/--no-commit-offsets",
        "commits_offsets",
        default=True,
        show_default=True,
        help="Commit the offsets of complete checkpoints to the group: for monitoring, never for recovery.",
    ),
    click.option("--group", default="", help="Consumer group of these offsets.  [default: sinkproof-COMMAND-TO]"),
    click.option(
        "--checkpoints",
        metavar="PATH|URL",
        help="Folder of the checkpoints, which identifies the job, or a URL: s3://BUCKET/FOLDER, gs://..., az://..."
        "  [default: .sinkproof/COMMAND-FROM-TO]",
    ),
    click.option(
        "--checkpoint-interval",
        "interval_ms",
        type=Milliseconds(),
        default="200ms",
        show_default=True,
        help="Time from one checkpoint to the next.",
    ),
    click.option(
        "--batch-rows", type=click.IntRange(1, 100_000), default=2000, show_default=True, help="Records of a batch."
    ),
)


@click.command()
@click.option(
    "--transform", default="", help="FILE.py:FUNCTION that maps each value (bytes) to another value, or to None."
)
@with_options(OF_TOPICS)
def etl(transform: str, **options: Any) -> None:
    """Move records from topic to topic, exactly once for read_committed readers.

    Keys, timestamps and headers are not changed. Ctrl-C stops it with a checkpoint. The same command continues there,
    also after any other ending.
    """
    file, _, name = transform.rpartition(":")
    if file.endswith(".py"):
        transform = f"{Path(file).absolute()}:{name}"  # Spark's workers run in other folders
    _run("etl", options, transform=transform)


@click.command()
@click.option("--size", "size_ms", type=Milliseconds(), required=True, help="Length of each window, in event time.")
@click.option(
    "--out-of-order",
    "out_of_order_ms",
    type=Milliseconds(),
    default="1s",
    show_default=True,
    help="How much older than the newest record of its partition a record may be.",
)
@click.option(
    "--idle-after",
    "idle_after_ms",
    type=Milliseconds(),
    default="1s",
    show_default=True,
    help="A partition without records for so long does not hold back the windows.",
)
@with_options(OF_TOPICS)
def windows(size_ms: int, out_of_order_ms: int, idle_after_ms: int, **options: Any) -> None:
    """Count records per key and window of event time. Each window that has ended yields one record per key.

    Event time is the record's timestamp. A record that is older than the newest one of its partition by more than
    --out-of-order may be late, and is then dropped.
    """
    _run("windows", options, size_ms=size_ms, out_of_order_ms=out_of_order_ms, idle_after_ms=idle_after_ms)


def _run(command: str, options: dict[str, Any], **parts: Any) -> None:
    topic_from, topic_to = options["topic_from"], options["topic_to"]
    usual = Path(".sinkproof") / f"{command}-{topic_from}-{topic_to}"
    path = usual if url_in(options) else Path(options["checkpoints"] or usual)

    def make(folder: PipelineFolder) -> Runnable:
        from sinkproof.pipeline.topic_pipeline import TopicPipeline, TopicPipelineOptions
        from sinkproof.reference_engine.dataflow.replayable_sources import InputError

        names = TopicPipelineOptions.__slots__
        chosen = TopicPipelineOptions(
            command=command,
            endpoint=_endpoint(options["address"]),
            **{name: value for name, value in options.items() if name in names},
            parts=parts,
        )
        try:
            return TopicPipeline(chosen, folder)
        except (InputError, OSError):
            _refuse_what_does_not_let_us_in(chosen.endpoint)
            raise

    grade = {"two-phase": "exactly-once for read_committed readers", "plain": "at-least-once"}[options["strategy"]]
    run_pipeline(path, make, options=options, output=f"({grade}): kafka:{topic_to}")


def _endpoint(address: str | None) -> str:
    from sinkproof.chaos.kafka_client.client_settings import absolute
    from sinkproof.pipeline.output_folder import PipelineError
    from sinkproof.subject.kafka_service import kafka_service
    from sinkproof.subject.services_in_use import ServicesInUse

    if address:
        return absolute(address.removeprefix(EXTERNAL))
    try:
        return kafka_service(ServicesInUse(), start=False).endpoint
    except LookupError:
        raise PipelineError(
            "no Kafka runs here. Name one with --kafka HOST:PORT, or run: sinkproof services start kafka"
        ) from None


def _refuse_what_does_not_let_us_in(endpoint: str) -> None:
    """The client has only said that no broker answers. Raises PipelineError if a request of ours learns why."""
    from sinkproof.chaos.services.kafka.kafka_jars import KAFKA
    from sinkproof.chaos.services.service import ServiceError
    from sinkproof.pipeline.output_folder import PipelineError

    try:
        with KAFKA.use(EXTERNAL + endpoint):
            pass
    except ServiceError as error:
        raise PipelineError(str(error)) from error
