"""The external system dies by SIGKILL and is restarted; the calling attempt is suspended meanwhile.

Healed by the restart: acknowledged data is still there, requests in flight are lost, and every connection is dead.
"""

from sinkproof.chaos.faults.fault_kind import service_outage

SERVICE_KILL = service_outage(
    "service-kill",
    "service crash: the external system is killed here, and started again",
    how="kill",
)
