"""Injects network failures between a sink and its target through toxiproxy, a proxy that all connections pass.

toxiproxy-python makes proxies and toxics correctly. But it has one server address per process, no timeouts and no
updates, and it ignores errors of the server. So each of its calls is made under a lock that sets the address, its
result is read back by our own client (ToxiproxyApi), and that client makes all other requests.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, Final

from sinkproof.chaos.faults.toxics import TOXICS, Toxic
from sinkproof.chaos.optional_packages import install_command
from sinkproof.chaos.services.service import ServiceFailed, ServiceUnavailable
from sinkproof.chaos.services.toxiproxy.toxiproxy_api import ToxiproxyApi, ToxiproxyError

ADDRESS: Final = Lock()  # guards the one server address of toxiproxy-python
REFUSED: Final = ToxiproxyError, OSError


class Network:
    """The proxies of one toxiproxy server."""

    def __init__(self, address: str) -> None:
        self.address, self.api = address, ToxiproxyApi(address)

    def lead_to(self, name: str, upstream: str) -> str:
        """The address of the proxy to `upstream`; the proxy is made if it does not exist."""
        known = self._request("GET", "/proxies")
        if name not in known:
            self._with_library(lambda server: server.create(upstream=upstream, name=name))
            known = self._request("GET", "/proxies")
        if name not in known or known[name]["upstream"] != upstream:
            raise self._failed(f"made no proxy to {upstream}", str(known.get(name)))
        return str(known[name]["listen"])

    def names(self) -> list[str]:
        return sorted(self._request("GET", "/proxies"))

    def break_connections(self, kind: str) -> None:
        """Applies this toxic, and no other, to all existing and new connections until `heal`."""
        self.heal()
        chosen = TOXICS[kind]
        for name in self.names():
            if chosen.toxic:
                self._add_toxic(name, kind, chosen)
            else:
                self._request("PATCH", f"/proxies/{name}", content={"enabled": False})

    def heal(self) -> None:
        """Removes all toxics and enables all proxies. Data that a toxic has delayed is delivered."""
        self._request("POST", "/reset", content={})

    def _add_toxic(self, name: str, kind: str, chosen: Toxic) -> None:
        wanted = {
            "name": kind,
            "type": chosen.toxic,
            "stream": chosen.stream,
            "attributes": dict(chosen.attributes),
        }
        self._with_library(lambda server: server.get_proxy(name).add_toxic(**wanted))
        toxics = {toxic["name"] for toxic in self._request("GET", f"/proxies/{name}/toxics")}
        if kind not in toxics:
            raise self._failed(f"did not take {kind}", ", ".join(sorted(toxics)) or "it has no toxic")

    def _with_library(self, call: Any) -> None:
        try:
            from toxiproxy import Toxiproxy
            from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists
        except ImportError as error:
            raise ServiceUnavailable(
                "network failures need toxiproxy-python",
                evidence=str(error),
                next_step=f"Run: {install_command('toxiproxy')}",
            ) from error
        host, _, port = self.address.rpartition(":")
        self._request("GET", "/version")  # fails if the server does not reply: the library has no timeout
        with ADDRESS:
            server = Toxiproxy()
            server.update_api_consumer(host, int(port))
            try:
                call(server)
            except (InvalidToxic, NotFound, ProxyExists, KeyError, OSError, ValueError) as error:
                raise self._failed("refused", f"{type(error).__name__}: {error}") from error

    def _request(self, method: str, path: str, *, content: Any = None) -> Any:
        try:
            return self.api.request(method, path, content=content)
        except REFUSED as error:
            raise self._failed(f"did not do {method} {path}", str(error)) from error

    def _failed(self, what: str, evidence: str) -> ServiceFailed:
        return ServiceFailed(
            f"the toxiproxy at {self.address} {what}",
            evidence=evidence,
            next_step="`sinkproof services status` shows whether it runs",
        )
