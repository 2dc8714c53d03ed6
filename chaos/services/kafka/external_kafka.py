"""A Kafka cluster that sinkproof does not run, given by its address."""

from __future__ import annotations

from typing import Final

from sinkproof.chaos.services.external_service import ExternalService
from sinkproof.chaos.services.kafka.metadata_request import request_metadata

ANSWER_SECONDS: Final = 10.0


class ExternalKafka(ExternalService):
    name = "kafka"
    title = "Kafka"

    @staticmethod
    def count_nodes(address: str) -> int:
        return len(request_metadata(address, seconds=ANSWER_SECONDS).brokers)
