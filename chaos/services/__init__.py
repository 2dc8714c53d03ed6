"""How is an external system (Kafka, Cassandra, toxiproxy) installed, started, broken and restored on this machine?

The main type is `Service` (service.py), the protocol that faults use; `Kind.use` (choose_service.py) returns one. A
local service has a daemon (service_daemon.py) that owns its processes and ends them; an entry (running_services.py)
makes it known to other processes. May import: chaos only.
"""
