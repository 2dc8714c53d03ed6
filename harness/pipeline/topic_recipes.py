"""The jobs from topic to topic as recipes: every process of a run makes its part of the job from them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from sinkproof.pipeline.file_recipes import job_of
from sinkproof.pipeline.output_folder import PipelineError
from sinkproof.reference_engine.dataflow.event_time import Watermarks
from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, JobGraph, Vertex
from sinkproof.reference_engine.dataflow.windows import TumblingWindows
from sinkproof.reference_engine.inputs.kafka_batch import MapValues, Transform
from sinkproof.reference_engine.inputs.kafka_group import GroupOffsets
from sinkproof.reference_engine.inputs.kafka_source import KafkaInput
from sinkproof.reference_engine.shells.spark.deployment import Deployment
from sinkproof.sink_adapters.kafka.pipeline_output import output_sink, warm_up

RECIPE: Final = "sinkproof.pipeline.topic_recipes:deployment"


def etl_graph(source: KafkaInput, parallelism: int, *, transform: str = "") -> JobGraph:
    """Source and sink are in one subtask, so that records need no channel between them."""
    vertices = [Vertex(name="source", parallelism=parallelism, source=source)]
    if transform:
        vertices.append(Vertex(name="transform", parallelism=parallelism, operator=partial(_mapping, transform)))
    vertices.append(Vertex(name="sink", parallelism=parallelism, sink=True))
    edges = [Edge(one.name, other.name) for one, other in pairwise(vertices)]
    return JobGraph(tuple(vertices), tuple(edges))


def windows_graph(
    source: KafkaInput, parallelism: int, *, size_ms: int, out_of_order_ms: int, idle_after_ms: int
) -> JobGraph:
    watermarks = Watermarks(out_of_order_ms=out_of_order_ms, idle_after_ms=idle_after_ms)
    return JobGraph(
        (
            Vertex(name="source", parallelism=parallelism, source=source, watermarks=watermarks),
            Vertex(name="windows", parallelism=parallelism, operator=partial(TumblingWindows, size_ms)),
            Vertex(name="sink", parallelism=parallelism, sink=True),
        ),
        (Edge("source", "windows", Exchange.KEYED), Edge("windows", "sink")),
    )


GRAPHS: Final[Mapping[str, Callable[..., JobGraph]]] = {"etl": etl_graph, "windows": windows_graph}  # by command


def deployment(
    *,
    command: str,
    source: KafkaInput,
    output: Mapping[str, str],
    group: str,
    interval_ms: int,
    parallelism: int,
    **parts: Any,
) -> Deployment:
    """`output`: the arguments of output_sink. `group`: to which complete checkpoints commit their offsets; "": none.
    `parts`: further arguments of the graph.
    """
    if parts.get("transform"):
        function_at(parts["transform"])
    warm_up()
    return Deployment(
        job=job_of(GRAPHS[command](source, parallelism, **parts), interval_ms=interval_ms),
        make_sink=lambda: output_sink(**output),
        on_complete=GroupOffsets(source.endpoint, source.topic, group) if group else None,
    )


# -- the user's own function -----------------------------------------------------------------------


def _mapping(locator: str) -> MapValues:
    return MapValues(function_at(locator))


@cache
def function_at(locator: str) -> Transform:
    """`path/to/file.py:function` or `package.module:function`. Raises PipelineError."""
    place, _, name = locator.rpartition(":")
    try:
        found: Any = getattr(_module_at(place), name)
    except (ImportError, OSError, SyntaxError, AttributeError, ValueError) as error:
        raise PipelineError(
            f"--transform {locator}: {type(error).__name__}: {error}. Name a function as path/to/file.py:function or "
            "package.module:function; it is given each value as bytes and returns bytes, or None to drop the record"
        ) from error
    if not callable(found):
        raise PipelineError(f"--transform {locator}: {name} is {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]


def _module_at(place: str) -> ModuleType:
    if not place.endswith(".py"):
        return importlib.import_module(place)
    name = f"sinkproof_transform_{Path(place).stem}"
    spec = importlib.util.spec_from_file_location(name, place)
    if spec is None or spec.loader is None:
        raise ImportError(f"{place} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
