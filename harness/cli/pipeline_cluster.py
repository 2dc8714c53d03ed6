"""The Spark of a pipeline: a master of the user's, a local one, or hosts on this machine and their way to Kafka."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sinkproof.chaos.services.spark_cluster.host_commands import HostCommands
    from sinkproof.pipeline.output_folder import PipelineFolder
    from sinkproof.pipeline.pipeline_runner import Runnable
    from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster

RETRIES: Final = (
    100_000  # of a task: killed workers are ordinary events here, but in local mode Spark gives up after one
)


@contextmanager
def cluster_for(
    pipeline: Runnable, folder: PipelineFolder, *, options: Mapping[str, Any], say: Callable[[str], None]
) -> Iterator[Cluster]:
    """Not started yet. In the end everything of it is gone, but for what the command has found."""
    from sinkproof.chaos.services.spark_cluster.standalone_spark import hosts_in
    from sinkproof.chaos.services.spark_cluster.standing_cluster import CORES_MOST, standing_cluster
    from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster
    from sinkproof.subject.scratch import scratch_folder

    tasks, given, settings = len(pipeline.plan.subtasks), options["master"] or "", dict(options["settings"])
    with scratch_folder() as of_spark, ExitStack() as cleaning:
        cluster = Cluster(
            folder=of_spark,
            master=_master(given, tasks),
            executors_seconds=options["executors_ms"] / 1000,
            say=say,
        )
        cluster.settings = settings
        if count := hosts_in(given):
            refuse_services_elsewhere(pipeline.services)
            say(f"starting a Spark cluster of {count} hosts")
            hosts = cleaning.enter_context(_own_hosts(cluster, count, tasks=tasks, shared=_shared(pipeline, folder)))
            cleaning.enter_context(_led_to(hosts, pipeline.services))
        elif (known := standing_cluster(given)) is not None:
            refuse_services_elsewhere(pipeline.services)
            slots = known.slots(tasks)
            cluster.settings = {CORES_MOST: str(slots), **settings}
            cluster.be_on(known.master, inside=known.inside, environment=known.environment, slots=slots)
            cleaning.enter_context(_led_to(known.hosts, pipeline.services))
        yield cluster


def _shared(pipeline: Runnable, folder: PipelineFolder) -> list[Path]:
    """What hosts of a command's own see, although it lies below folders that each has for itself."""
    return [folder.path, *map(Path, pipeline.reads), Path.cwd(), *map(Path, filter(os.path.isdir, sys.path))]


@contextmanager
def _own_hosts(cluster: Cluster, count: int, *, tasks: int, shared: Sequence[Path]) -> Iterator[HostCommands]:
    from sinkproof.chaos.services.spark_cluster.standalone_spark import StandaloneSpark

    folder = cluster.folder / "hosts"
    with StandaloneSpark.for_tasks(tasks, hosts=count, folder=folder, shared=shared) as spark:
        cluster.be_on(spark.master, inside=spark.command(), environment=spark.environment, slots=spark.slots)
        yield spark.hosts


@contextmanager
def _led_to(hosts: HostCommands, services: Sequence[str]) -> Iterator[None]:
    from sinkproof.chaos.services.spark_cluster.service_relays import ServiceRelays

    with ServiceRelays(hosts) as relays:
        relays.lead_to(services)
        yield


def refuse_services_elsewhere(services: Sequence[str]) -> None:
    """Raises PipelineError."""
    from sinkproof.chaos.services.spark_cluster.service_relays import LOOPBACK
    from sinkproof.pipeline.output_folder import PipelineError

    if elsewhere := [each for each in services if not each.startswith(LOOPBACK)]:
        raise PipelineError(
            f"hosts in namespaces of this machine reach external systems on its loopback only, and not {elsewhere[0]}: "
            "leave out --master, or name a Spark master of your own"
        )


def _master(given: str, tasks: int) -> str:
    master = given or f"local[{tasks}]"
    return re.sub(r"^local\[(\d+|\*)\]$", rf"local[\1,{RETRIES}]", master)
