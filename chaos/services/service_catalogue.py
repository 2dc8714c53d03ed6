"""The table of the kinds of services that can be started by name."""

from __future__ import annotations

from typing import Any, Final

from sinkproof.chaos.entry_points import SERVICES, load_registered
from sinkproof.chaos.services.cassandra.cassandra_jars import CASSANDRA
from sinkproof.chaos.services.choose_service import Kind
from sinkproof.chaos.services.kafka.kafka_jars import KAFKA
from sinkproof.chaos.services.spark_cluster.standing_cluster import SPARK_CLUSTER
from sinkproof.chaos.services.toxiproxy.toxiproxy_server import TOXIPROXY

OWN_KINDS: Final[tuple[Kind[Any], ...]] = (KAFKA, CASSANDRA, TOXIPROXY, SPARK_CLUSTER)
REGISTERED_KINDS: Final = load_registered(SERVICES, Kind, name_in="name", taken={kind.name for kind in OWN_KINDS})
KINDS: Final[dict[str, Kind[Any]]] = {kind.name: kind for kind in (*OWN_KINDS, *REGISTERED_KINDS)}
