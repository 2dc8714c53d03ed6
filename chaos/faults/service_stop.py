"""The external system is shut down (SIGTERM) and restarted; the calling attempt is suspended meanwhile.

Healed by the restart. It differs from a kill because the shutdown itself executes code of the external system.
"""

from sinkproof.chaos.faults.fault_kind import service_outage

SERVICE_STOP = service_outage(
    "service-stop",
    "service restart: the external system is shut down here, and started again",
    how="stop",
)
