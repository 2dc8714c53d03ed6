"""One more listener for a broker of tests, with TLS and SCRAM: its settings, its user, and the file for its clients."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from sinkproof.chaos.services.kafka.local_kafka import LocalKafka
from sinkproof.chaos.services.local_service import WantedService
from sinkproof.chaos.services.ports import HOST, free_ports

from .certificates import issue

USER: Final = "alice"
PASSWORD: Final = "correct-horse-battery-staple"
SECURE: Final = "listener.name.secure."
KEYS: Final = SECURE + "ssl.keystore.location"
LISTENERS: Final = "listeners"
SECONDS: Final = 30.0


def wanted_with_tls(folder: Path, *, owner: int) -> WantedService:
    """`folder`: for keys and certificates."""
    issue(folder, HOST)
    port, controller, secure = free_ports(3, taken=())
    return WantedService(owner=owner, port=port, settings=_settings(folder, port, controller, secure))


def _settings(folder: Path, port: int, controller: int, secure: int) -> Mapping[str, str]:
    direct, tls = f"DIRECT://{HOST}:{port}", f"SECURE://{HOST}:{secure}"
    return {
        LISTENERS: f"{direct},CONTROLLER://{HOST}:{controller},{tls}",
        "advertised.listeners": f"{direct},{tls}",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listener.security.protocol.map": "DIRECT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
        SECURE + "ssl.keystore.type": "PEM",
        KEYS: str(folder / "server.pem"),
        SECURE + "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        SECURE + "scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    }


def add_user(broker: LocalKafka, *, user: str = USER) -> None:
    credentials = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    admin = AdminClient({"bootstrap.servers": broker.direct_endpoint})
    wanted = [UserScramCredentialUpsertion(user, credentials, PASSWORD.encode())]
    for future in admin.alter_user_scram_credentials(wanted).values():
        future.result(SECONDS)


def tls_port(broker: LocalKafka) -> int:
    return int(broker.settings[LISTENERS].rpartition(":")[2])


def settings_text(broker: LocalKafka, *, user: str = USER, password: str = PASSWORD) -> str:
    """client.properties, as Kafka's own tools take it."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return f"""security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={module} required username="{user}" password="{password}";
ssl.truststore.type=PEM
ssl.truststore.location={Path(broker.settings[KEYS]).parent / "ca.pem"}
"""


def secured_address(broker: LocalKafka, file: Path, text: str) -> str:
    """Of the listener, with this text in the file."""
    file.touch(mode=0o600)
    file.write_text(text)
    return f"{HOST}:{tls_port(broker)}@{file}"
