"""A pipeline from topic to topic, as the command sees it: which job it is, where it began, how far it has to go.

The folder of its checkpoints is what makes it one job: its name, which no other job has ever had, stands at the front
of all its transactional ids.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sinkproof.pipeline.output_folder import PipelineError, PipelineFolder
from sinkproof.pipeline.topic_recipes import ETL, etl_graph, function_at, windows_graph
from sinkproof.reference_engine.dataflow.job_graph import Plan
from sinkproof.reference_engine.dataflow.replayable_sources import InputError
from sinkproof.reference_engine.inputs.kafka_group import TopicView
from sinkproof.reference_engine.inputs.kafka_source import KafkaInput
from sinkproof.sink_adapters.kafka.pipeline_output import ensure_topics

ANSWER_SECONDS: Final = 5.0
LOOK_AGAIN_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a user has asked for. `parts`: what else the recipe takes."""

    command: str
    recipe: str
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
    """A pipeline.Runnable. Asks the broker; makes the topics of the output if they are missing."""

    network = "unix"

    def __init__(self, wanted: Wanted, folder: PipelineFolder) -> None:
        refuse(wanted)
        self.wanted, self.recipe, self.bounded = wanted, wanted.recipe, wanted.until_end
        view = TopicView(wanted.endpoint, wanted.topic_from, seconds=ANSWER_SECONDS)
        begins, ends = view.extent()
        self.made = ensure_topics(wanted.endpoint, wanted.topic_to, partitions=len(begins))
        earlier = folder.earlier() or {}
        begins |= {int(number): at for number, at in earlier.get("begins", {}).items()}
        self.source = KafkaInput(
            endpoint=wanted.endpoint,
            topic=wanted.topic_from,
            begins=begins,
            ends=ends if wanted.until_end else None,
            batch_rows=wanted.batch_rows,
        )
        cluster = view.cluster()
        self.job = {
            "command": wanted.command,
            "sink": wanted.strategy,
            "key": " ".join(f"{name}={value}" for name, value in sorted(wanted.parts.items())),
            "input": f"topic {wanted.topic_from} of cluster {cluster}",
            "output": f"topic {wanted.topic_to} of cluster {cluster}",
            "name": earlier.get("name") or f"{wanted.command}-{folder.home.stat().st_ctime_ns:x}",
            "begins": begins,
        }
        self.begun = sum(begins.values())
        self._view, self._ends = view, ends

    @property
    def total(self) -> int:
        return sum(self._ends.values()) - self.begun

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Who follows the run does not wait for a broker: a thread asks where the partitions end by now."""
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
                continue  # the broker is away; the sources say so if it stays away
        self._view.close()

    @property
    def plan(self) -> Plan:
        wanted = self.wanted
        graph = etl_graph if wanted.recipe == ETL else windows_graph
        return graph(self.source, wanted.parallelism, **wanted.parts).plan()

    def arguments(self, folder: Path) -> Mapping[str, Any]:
        wanted = self.wanted
        group = (wanted.group or f"sinkproof-{wanted.command}-{wanted.topic_to}") if wanted.commits_offsets else ""
        output = {
            "strategy": wanted.strategy,
            "endpoint": wanted.endpoint,
            "topic": wanted.topic_to,
            "prefix": self.job["name"],
        }
        return {
            "source": self.source,
            "output": output,
            "group": group,
            "interval_ms": wanted.interval_ms,
            "parallelism": wanted.parallelism,
            **wanted.parts,
        }


def refuse(wanted: Wanted) -> None:
    """What can be seen without asking anybody."""
    if wanted.topic_from == wanted.topic_to:
        raise PipelineError(f"--from and --to are both kafka:{wanted.topic_to}: it would read what it writes, for ever")
    if wanted.parts.get("transform"):
        function_at(wanted.parts["transform"])
