"""The table of the kinds of services that can be started by name."""

from __future__ import annotations

from typing import Any, Final

from sinkproof.chaos.services.cassandra.cassandra_jars import CASSANDRA
from sinkproof.chaos.services.choose_service import Kind
from sinkproof.chaos.services.kafka.kafka_jars import KAFKA
from sinkproof.chaos.services.toxiproxy.toxiproxy_server import TOXIPROXY

KINDS: Final[dict[str, Kind[Any]]] = {kind.name: kind for kind in (KAFKA, CASSANDRA, TOXIPROXY)}
