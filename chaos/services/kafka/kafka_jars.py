"""Defines the service kind Kafka: its version and its jars."""

from __future__ import annotations

from typing import Final

from sinkproof.chaos.services.jars import Artifact
from sinkproof.chaos.services.jvm_service import jvm_kind
from sinkproof.chaos.services.kafka.broker_readiness import count_brokers
from sinkproof.chaos.services.kafka.local_kafka import LocalKafka, start_kafka

VERSION: Final = "4.2.1"  # the behaviour that sinks rely on was measured with this version
LOGGING_VERSION: Final = "2.25.4"  # without this jar a broker logs nothing
# Else a restart recovers the topics of earlier runs, too: by default nothing is removed within 30 s of a start.
SOON_GONE: Final = {"log.segment.delete.delay.ms": "100", "log.initial.task.delay.ms": "100"}


KAFKA: Final = jvm_kind(
    LocalKafka,
    version=VERSION,
    artifacts=lambda version: [
        Artifact("org.apache.kafka", "kafka_2.13", version),
        Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", LOGGING_VERSION),
    ],
    start=start_kafka,
    count_nodes=count_brokers,
    settings_inside=SOON_GONE,
)
