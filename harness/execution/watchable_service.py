"""Which external system of a certification can be killed inside, and why not."""

from __future__ import annotations

from sinkproof.chaos.services.local_service import LocalService
from sinkproof.subject.contract import ContractError
from sinkproof.subject.services_in_use import ServicesInUse


def why_not_inside(services: ServicesInUse) -> str:
    """Empty: there is one, of one node, which this certification has started."""
    found = services.breakable()
    if not found:
        return "no external system of this certification's own is in use"
    if len(found) > 1:
        return f"several external systems are in use: {', '.join(service.title for service in found)}"
    if found[0].node_count > 1:
        return f"{found[0].title} has several nodes: those that go on answer for the one that died"
    return ""


def service_to_watch(services: ServicesInUse) -> LocalService:
    if why := why_not_inside(services):
        raise ContractError(f"nothing can be killed inside a service: {why}")
    return services.breakable()[0]
