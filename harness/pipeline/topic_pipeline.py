"""A pipeline from topic to topic: which job it is, at which offsets it begins, and where its input ends by now.

The folder of its checkpoints identifies the job. Its unique name is the prefix of all its transactional ids.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sinkproof.pipeline.output_folder import PipelineError, PipelineFolder
from sinkproof.pipeline.topic_recipes import GRAPHS, RECIPE, function_at
from sinkproof.reference_engine.dataflow.job_graph import Plan
from sinkproof.reference_engine.dataflow.replayable_sources import InputError
from sinkproof.reference_engine.inputs.kafka_group import TopicView
from sinkproof.reference_engine.inputs.kafka_source import KafkaInput
from sinkproof.sink_adapters.kafka.pipeline_output import ensure_topics

ANSWER_SECONDS: Final = 5.0
LOOK_AGAIN_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPipelineOptions:
    """`command`: one of GRAPHS. `parts`: further arguments of its graph."""

    command: str
    endpoint: str
    topic_from: str
    topic_to: str
    strategy: str = "two-phase"
    until_end: bool = False
    commits_offsets: bool = True
    group: str = ""
    parallelism: int = 2
    interval_ms: int = 200
    batch_rows: int = 2000
    parts: Mapping[str, Any] = field(default_factory=dict)


class TopicPipeline:
    """A Runnable. Connects to the broker, and creates the topic of the output if it is missing."""

    recipe = RECIPE

    def __init__(self, options: TopicPipelineOptions, folder: PipelineFolder) -> None:
        refuse(options)
        self.options, self.bounded = options, options.until_end
        view = TopicView(options.endpoint, options.topic_from, seconds=ANSWER_SECONDS)
        begins, ends = view.extent()
        ensure_topics(options.endpoint, options.topic_to, partitions=len(begins))
        earlier = folder.earlier() or {}
        begins |= {int(number): at for number, at in earlier.get("begins", {}).items()}
        self.source = KafkaInput(
            endpoint=options.endpoint,
            topic=options.topic_from,
            begins=begins,
            ends=ends if options.until_end else None,
            batch_rows=options.batch_rows,
        )
        cluster, self.services = view.cluster(), view.addresses()
        self.job = {
            "command": options.command,
            "sink": options.strategy,
            "key": " ".join(f"{name}={value}" for name, value in sorted(options.parts.items())),
            "input": f"topic {options.topic_from} of cluster {cluster}",
            "output": f"topic {options.topic_to} of cluster {cluster}",
            "name": earlier.get("name") or f"{options.command}-{folder.home.stat().st_ctime_ns:x}",
            "begins": begins,
        }
        self.begun = sum(begins.values())
        self._view, self._ends = view, ends

    @property
    def reads(self) -> Sequence[str]:
        """Of the function that transforms, and of the settings of clients."""
        files = self.options.parts.get("transform", "").rpartition(":")[0], self.options.endpoint.partition("@")[2]
        return [os.path.dirname(file) for file in files if os.path.isabs(file)]

    @property
    def total(self) -> int:
        return sum(self._ends.values()) - self.begun

    @contextmanager
    def watched(self) -> Iterator[None]:
        """A thread requests where the partitions end by now, so that progress never waits for a broker."""
        over = threading.Event()
        thread = threading.Thread(target=self._watch, args=(over,), daemon=True)
        if not self.bounded:
            thread.start()
        try:
            yield
        finally:
            over.set()

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(LOOK_AGAIN_SECONDS):
            try:
                self._ends = self._view.extent()[1]
            except InputError:
                continue  # the broker does not answer; if it stays away, the sources fail
        self._view.close()

    @property
    def plan(self) -> Plan:
        options = self.options
        return GRAPHS[options.command](self.source, options.parallelism, **options.parts).plan()

    def arguments(self, folder: Path) -> Mapping[str, Any]:
        options = self.options
        group = (options.group or f"sinkproof-{options.command}-{options.topic_to}") if options.commits_offsets else ""
        output = {
            "strategy": options.strategy,
            "endpoint": options.endpoint,
            "topic": options.topic_to,
            "prefix": self.job["name"],
        }
        return {
            "command": options.command,
            "source": self.source,
            "output": output,
            "group": group,
            "interval_ms": options.interval_ms,
            "parallelism": options.parallelism,
            **options.parts,
        }


def refuse(options: TopicPipelineOptions) -> None:
    """Checks the arguments without a request to a broker. Raises PipelineError."""
    if options.topic_from == options.topic_to:
        raise PipelineError(
            f"--from and --to are both kafka:{options.topic_to}: it would read its own output endlessly"
        )
    if options.parts.get("transform"):
        function_at(options.parts["transform"])
