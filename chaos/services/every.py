"""Every kind of service that can be started by name."""

from __future__ import annotations

from typing import Any, Final

from sinkproof.chaos.services.cassandra import CASSANDRA
from sinkproof.chaos.services.kafka import KAFKA
from sinkproof.chaos.services.kind import Kind
from sinkproof.chaos.services.toxiproxy import TOXIPROXY

KINDS: Final[dict[str, Kind[Any]]] = {kind.name: kind for kind in (KAFKA, CASSANDRA, TOXIPROXY)}
