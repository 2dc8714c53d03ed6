"""Defines the service kind Kafka: its version, its jars, and its external form."""

from __future__ import annotations

from functools import partial
from typing import Final

from sinkproof.chaos.services.container_nodes import in_image
from sinkproof.chaos.services.installation import Installation
from sinkproof.chaos.services.jars import Artifact, is_resolved
from sinkproof.chaos.services.jvm_service import installed, jars_name
from sinkproof.chaos.services.kafka.external_kafka import ExternalKafka
from sinkproof.chaos.services.kafka.local_kafka import LocalKafka, start_kafka
from sinkproof.chaos.services.service import Progress
from sinkproof.chaos.services.service_class_archive import short_lived
from sinkproof.chaos.services.service_kind import Kind

VERSION: Final = "4.2.1"  # the behaviour that sinks rely on was measured with this version
LOGGING_VERSION: Final = "2.25.4"  # without this jar a broker logs nothing


def install(version: str, *, progress: Progress) -> Installation:
    artifacts = [
        Artifact("org.apache.kafka", "kafka_2.13", version),
        Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", LOGGING_VERSION),
    ]
    return installed(artifacts, start_kafka, service=LocalKafka, version=version, like=VERSION, progress=progress)


KAFKA: Final = Kind(
    service=LocalKafka,
    version=VERSION,
    variable="SINKPROOF_KAFKA",
    install=install,
    start=start_kafka,
    external=ExternalKafka,
    short_lived=short_lived,
    is_installed=lambda version: is_resolved(jars_name(LocalKafka, version)),
    contained=partial(in_image, name=LocalKafka.name),
)
use_kafka = KAFKA.use
running_kafka = KAFKA.running
