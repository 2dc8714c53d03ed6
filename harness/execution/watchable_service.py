"""The external system of a certification, while it can be killed inside; and why another one cannot."""

from __future__ import annotations

from sinkproof.chaos.services.watched_service import WatchedService
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.subject.contract import ContractError
from sinkproof.subject.services_in_use import ServicesInUse


class NotBack(ReaderFailed):
    """It was killed inside, and does not start again. `sentence`: where it was killed."""

    def __init__(self, title: str, sentence: str, *, evidence: str) -> None:
        super().__init__(f"has no {title} any more: it did not start again: {sentence}", evidence=evidence)
        self.sentence = sentence


class ServiceToKill:
    """`watched`: None while it is not to be killed inside."""

    def __init__(self, services: ServicesInUse) -> None:
        self._services = services
        self.watched: WatchedService | None = None
        self._not_settled: ReaderFailed | None = None

    def watch(self) -> WatchedService:
        """From now on it can be killed inside, until `leave`. It is restarted."""
        if self.watched is None:
            if why := why_not_inside(self._services):
                raise ContractError(f"nothing can be killed inside a service: {why}")
            service = self._services.breakable()[0]
            self.watched = WatchedService(service, await_settled=self._await_settled).__enter__()
        return self.watched

    def leave(self) -> None:
        watched, self.watched = self.watched, None
        if watched is not None:
            watched.__exit__()

    def _await_settled(self) -> None:
        """Within a call of the sink, which must not seem to raise what the service is to blame for."""
        try:
            self._services.await_settled()
        except ReaderFailed as error:
            self._not_settled = error

    def raise_what_failed(self) -> None:
        """A service that is not back after a death is no fault of the sink."""
        not_settled, self._not_settled = self._not_settled, None
        if self.watched is not None and self.watched.failed is not None:
            watched = self.watched
            raise NotBack(watched.title, watched.run.sentence(), evidence=str(watched.failed)) from watched.failed
        if not_settled is not None:
            raise not_settled


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
