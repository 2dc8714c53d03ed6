"""What breaks between a sink and what it writes to: a real proxy, toxiproxy, that every connection is led through.

toxiproxy-python makes proxies and toxics, which it does right. It has one address for all servers, no time limit, no
way to change anything, and takes a server's failure for an answer: so each of its calls is made under a lock that names
the server, what it made is read back by a client of our own, and all else is that client's.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, Final

from sinkproof.chaos.faults.toxics import TOXICS, Toxic
from sinkproof.chaos.services.service import ServiceFailed, ServiceUnavailable
from sinkproof.chaos.services.toxiproxy.toxiproxy_api import ToxiproxyApi, ToxiproxyError

ADDRESS: Final = Lock()  # toxiproxy-python has one for the whole process
REFUSED: Final = ToxiproxyError, OSError


class Network:
    """The proxies of one toxiproxy."""

    def __init__(self, address: str) -> None:
        self.address, self.api = address, ToxiproxyApi(address)

    def lead_to(self, name: str, upstream: str) -> str:
        """The address that leads there; made if it is not there yet."""
        known = self._asked("GET", "/proxies")
        if name not in known:
            self._with_library(lambda server: server.create(upstream=upstream, name=name))
            known = self._asked("GET", "/proxies")
        if name not in known or known[name]["upstream"] != upstream:
            raise self._failed(f"made no proxy to {upstream}", str(known.get(name)))
        return str(known[name]["listen"])

    def names(self) -> list[str]:
        return sorted(self._asked("GET", "/proxies"))

    def strike(self, kind: str) -> None:
        """Breaks all connections, those that are there and new ones, until `heal`; in this way only."""
        self.heal()
        chosen = TOXICS[kind]
        for name in self.names():
            if chosen.toxic:
                self._poison(name, kind, chosen)
            else:
                self._asked("PATCH", f"/proxies/{name}", content={"enabled": False})

    def heal(self) -> None:
        """All toxics are gone, and all proxies up. What a toxic still held goes on its way."""
        self._asked("POST", "/reset", content={})

    def _poison(self, name: str, kind: str, chosen: Toxic) -> None:
        wanted = {
            "name": kind,
            "type": chosen.toxic,
            "stream": chosen.stream,
            "attributes": dict(chosen.attributes),
        }
        self._with_library(lambda server: server.get_proxy(name).add_toxic(**wanted))
        toxics = {toxic["name"] for toxic in self._asked("GET", f"/proxies/{name}/toxics")}
        if kind not in toxics:
            raise self._failed(f"did not take {kind}", ", ".join(sorted(toxics)) or "it has no toxic")

    def _with_library(self, call: Any) -> None:
        try:
            from toxiproxy import Toxiproxy
            from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists
        except ImportError as error:
            raise ServiceUnavailable(
                "networks are broken with toxiproxy-python",
                evidence=str(error),
                next_step="Run: pip install 'sinkproof[toxiproxy]'",
            ) from error
        host, _, port = self.address.rpartition(":")
        self._asked("GET", "/version")  # it answers: the library would wait for ever
        with ADDRESS:
            server = Toxiproxy()
            server.update_api_consumer(host, int(port))
            try:
                call(server)
            except (InvalidToxic, NotFound, ProxyExists, KeyError, OSError, ValueError) as error:
                raise self._failed("refused", f"{type(error).__name__}: {error}") from error

    def _asked(self, method: str, path: str, *, content: Any = None) -> Any:
        try:
            return self.api.ask(method, path, content=content)
        except REFUSED as error:
            raise self._failed(f"did not do {method} {path}", str(error)) from error

    def _failed(self, what: str, evidence: str) -> ServiceFailed:
        return ServiceFailed(
            f"the toxiproxy at {self.address} {what}",
            evidence=evidence,
            next_step="`sinkproof services status` says whether it runs",
        )
