"""Where the hosts of a pipeline reach Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sinkproof.cli.pipeline_cluster import cluster_for, refuse_services_elsewhere
from sinkproof.pipeline.output_folder import PipelineError
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.workload.rows import STANDARD_INPUT


class FromElsewhere:
    """A pipeline of which only this is asked before anything starts."""

    plan, reads, services = source_to_sink(STANDARD_INPUT).plan(), (), ("127.0.0.1:9092", "192.0.2.1:9092")


def test_hosts_reach_brokers_on_the_loopback_of_this_machine_only(tmp_path: Path) -> None:
    refuse_services_elsewhere(["127.0.0.1:9092", "127.0.0.1:9093"])
    pipeline: Any = FromElsewhere()
    options, said = {"master": "cluster:3", "settings": {}, "executors_ms": 1000}, list[str]()
    with (
        pytest.raises(PipelineError, match=r"on its loopback only, and not 192\.0\.2\.1:9092: leave out --master"),
        cluster_for(pipeline, pipeline, options=options, say=said.append),
    ):
        pass
    assert [] == said  # no cluster was started
