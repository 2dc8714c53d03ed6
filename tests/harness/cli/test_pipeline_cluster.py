"""Where the hosts of a pipeline reach Kafka."""

from __future__ import annotations

import pytest

from sinkproof.cli.pipeline_cluster import refuse_services_elsewhere
from sinkproof.pipeline.output_folder import PipelineError


def test_hosts_reach_brokers_on_the_loopback_of_this_machine_only() -> None:
    refuse_services_elsewhere(["127.0.0.1:9092", "127.0.0.1:9093"])
    with pytest.raises(PipelineError, match=r"on its loopback only, and not 192\.0\.2\.1:9092: leave out --master"):
        refuse_services_elsewhere(["127.0.0.1:9092", "192.0.2.1:9092"])
