"""The external system is suspended (SIGSTOP) for longer than the request timeout; the sink goes on meanwhile.

Heals by itself: the system resumes and carries out all requests, also those of clients that have timed out.
"""

from sinkproof.chaos.faults.fault_kind import service_outage

SERVICE_PAUSE = service_outage(
    "service-pause",
    "service pause: the external system is suspended here, and resumes after requests to it have timed out",
    how="pause",
)
