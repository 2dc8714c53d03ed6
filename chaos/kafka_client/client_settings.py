"""Reads how clients reach a Kafka cluster: an address, and the file with TLS and SASL settings that it may name.

An address is HOST:PORT[,HOST:PORT][@FILE]; the file has the form of Kafka's own tools (client.properties). Only this
text travels to other processes, into checkpoints, reports and events: each process that makes a client reads the file.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

FILE_MARK: Final = "@"
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PEM: Final = "PEM"
PEM_BEGINS: Final = b"-----BEGIN "
UNENCRYPTED_KEY: Final = re.compile(rb"-----BEGIN (?!ENCRYPTED )[A-Z ]*PRIVATE KEY-----(?!\s*Proc-Type: 4,ENCRYPTED)")
OF_SECURITY: Final = ("security.", "sasl.", "ssl.")  # other settings of such a file do not concern us
KNOWN: Final[Mapping[str, str]] = {  # names of Kafka's own tools, and of librdkafka
    "security.protocol": "protocol",
    **dict.fromkeys(("sasl.mechanism", "sasl.mechanisms"), "mechanism"),
    "sasl.username": "user",
    "sasl.password": "password",
    **dict.fromkeys(("ssl.truststore.location", "ssl.ca.location"), "authorities"),
    **dict.fromkeys(("ssl.keystore.location", "ssl.certificate.location"), "certificate"),
    "ssl.key.location": "key",
    "ssl.key.password": "key_password",
}
FILES: Final = ("authorities", "certificate", "key")
SECRETS: Final = ("password", "key_password")
JAAS: Final = "sasl.jaas.config"
STORE_TYPES: Final = ("ssl.truststore.type", "ssl.keystore.type")
NAME_CHECK: Final = "ssl.endpoint.identification.algorithm"
HTTPS: Final = "https"
NO_NAME_CHECK: Final = ("none", "")  # for librdkafka; for Kafka's own tools
JAAS_OPTION: Final = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
TO_PEM: Final = "Export it: keytool -exportcert -rfc, or openssl pkcs12 -in STORE -out FILE"


class AccessRefused(ConnectionError):
    """The file of an address cannot be used, or TLS or SASL failed: what happened, the evidence, the next step; never a
    value from the file.
    """

    def __init__(self, what: str, *, evidence: str, next_step: str) -> None:
        super().__init__(f"{what}: {evidence}. {next_step}")
        self.what, self.evidence, self.next_step = what, evidence, next_step


class Secret(str):
    """Text that no traceback with local variables, and no printed dictionary, shows."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """`file`: from which they were read; "": a listener without TLS and passwords."""

    file: str = ""
    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    authorities: str = ""  # file with the certificates that are trusted; "": those of this machine
    certificate: str = ""  # of this client
    key: str = ""
    key_password: str = field(default="", repr=False)
    checks_host_name: bool = True

    @property
    def encrypts(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def logs_in(self) -> bool:
        return self.protocol.startswith("SASL")


NO_SETTINGS: Final = ClientSettings()
# Without these a new producer waits for rounds of metadata, of 500 ms each: its start takes 54 ms instead of 16 (p50),
# and 520 or 1,030 ms instead of 20 if an earlier one had its transactional id.
QUICK: Final[dict[str, Any]] = {
    "topic.metadata.refresh.interval.ms": 100,
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 200,
}


def brokers_of(endpoint: str) -> list[str]:
    """The addresses of its brokers."""
    return endpoint.partition(FILE_MARK)[0].split(",")


def absolute(endpoint: str) -> str:
    """The same, readable from any folder."""
    brokers, mark, file = endpoint.partition(FILE_MARK)
    return f"{brokers}{mark}{Path(file).absolute()}" if file else endpoint


def settings_of(endpoint: str) -> ClientSettings:
    """Raises AccessRefused."""
    _, mark, file = endpoint.partition(FILE_MARK)
    return _read(file) if mark else NO_SETTINGS


def client_options(endpoint: str) -> dict[str, Any]:
    """What a client of confluent-kafka needs to reach the cluster. Raises AccessRefused."""
    settings = settings_of(endpoint)
    options: dict[str, Any] = {"bootstrap.servers": ",".join(brokers_of(endpoint))}
    if not settings.file:
        return options
    options["security.protocol"] = settings.protocol
    if settings.logs_in:
        login = {"sasl.mechanisms": settings.mechanism, "sasl.username": settings.user}
        options |= {**login, "sasl.password": settings.password}
    if settings.encrypts:
        options[NAME_CHECK] = HTTPS if settings.checks_host_name else NO_NAME_CHECK[0]
        files = {"ca": settings.authorities, "certificate": settings.certificate, "key": settings.key}
        options |= {f"ssl.{name}.location": file for name, file in files.items() if file}
        options |= {"ssl.key.password": settings.key_password} if settings.key_password else {}
    return options


def _read(file: str) -> ClientSettings:
    path = Path(file)
    if not path.is_absolute():
        raise AccessRefused(
            f"{file or 'the file of the address'} cannot be found by every process",
            evidence="its path is relative, and the processes of a run have other working folders",
            next_step="Name it by its absolute path",
        )
    given = _properties(path)
    named = {KNOWN[name]: value for name, value in given.items() if name in KNOWN}
    named = {**dict(_of_jaas(file, given.get(JAAS, ""))), **named}
    found: dict[str, Any] = {"protocol": ""}
    found |= {name: value if name in SECRETS else str(value) for name, value in named.items()}
    found |= {name: _pem(file, path.parent / found[name]) for name in FILES if found.get(name)}
    if found.get("certificate"):
        found.setdefault("key", found["certificate"])  # Kafka's own clients keep both in one file
    settings = ClientSettings(file=file, checks_host_name=_name_check(given) not in NO_NAME_CHECK, **found)
    _check(settings, given)
    if settings.password or settings.key_password:
        _check_mode(path, "a password")
    for named_file in filter(None, (settings.certificate, settings.key)):
        if UNENCRYPTED_KEY.search(Path(named_file).read_bytes()):
            _check_mode(Path(named_file), "a private key")
    return settings


def _name_check(given: Mapping[str, str]) -> str:
    return str(given.get(NAME_CHECK, HTTPS)).lower()


def _properties(path: Path) -> dict[str, Secret]:
    try:
        import javaproperties

        return {name: Secret(value) for name, value in javaproperties.loads(path.read_text()).items()}
    except ImportError as error:
        what, why = "files with settings of Kafka's clients cannot be read", str(error)
        next_step = "Run: pip install javaproperties"
    except OSError as error:
        what, why, next_step = f"{path} cannot be read", error.strerror or str(error), "Check the name after the @"
    except ValueError as error:  # its text would show a part of the file
        what, why = f"{path} is no file of settings", f"{type(error).__name__} in it"
        next_step = "Each line is name=value, as in client.properties for Kafka's own tools"
    raise AccessRefused(what, evidence=why, next_step=next_step)


def _of_jaas(file: str, line: str) -> Iterator[tuple[str, Secret]]:
    """`org.apache.kafka...ScramLoginModule required username="alice" password="...";`"""
    options = {
        name: Secret(re.sub(r"\\(.)", r"\1", double or single or bare))
        for name, double, single, bare in JAAS_OPTION.findall(line)
    }
    if line and not {"username", "password"} <= set(options):
        raise AccessRefused(
            f"{file}: {JAAS} cannot be used",
            evidence="it has no username and password",
            next_step=f"Known mechanisms are {', '.join(MECHANISMS)}, with modules that have both",
        )
    yield from ((name, options[key]) for name, key in (("user", "username"), ("password", "password")) if line)


def _pem(file: str, path: Path) -> str:
    try:
        begins = path.read_bytes()
    except OSError as error:
        raise AccessRefused(
            f"{file} names {path}, which cannot be read",
            evidence=error.strerror or str(error),
            next_step="Check the path; a relative one begins at the folder of the settings",
        ) from None
    if PEM_BEGINS not in begins:
        next_step = f"Only PEM is read by every client in use here. {TO_PEM}"
        raise AccessRefused(f"{file} names {path}", evidence="it is no PEM file", next_step=next_step)
    return str(path)


def _check(settings: ClientSettings, given: Mapping[str, str]) -> None:
    lawful = {*KNOWN, JAAS, NAME_CHECK, *STORE_TYPES}
    wrong = [name for name in given if name.startswith(OF_SECURITY) and name not in lawful]
    stores = [name for name in STORE_TYPES if given.get(name, PEM).upper() != PEM]
    if wrong or stores:
        raise AccessRefused(
            f"{settings.file} has {', '.join([*wrong, *stores])}",
            evidence="that is no setting that every client in use here can follow",
            next_step=f"Known are {', '.join(sorted(lawful))}; stores are PEM files",
        )
    allowed: dict[str, tuple[str, tuple[str, ...]]] = {
        "security.protocol": (settings.protocol, PROTOCOLS),
        NAME_CHECK: (_name_check(given), (HTTPS, *NO_NAME_CHECK)),
    }
    if settings.logs_in:
        allowed["sasl.mechanism"] = (settings.mechanism, MECHANISMS)
    for name, (value, known) in allowed.items():
        if value not in known:
            missing = f"{name} is {value or 'missing'}"
            raise AccessRefused(
                f"{settings.file} cannot be used",
                evidence=missing,
                next_step=f"Known are {', '.join(each or 'an empty one' for each in known)}",
            )
    if settings.logs_in and not (settings.user and settings.password):
        raise AccessRefused(
            f"{settings.file} cannot be used",
            evidence=f"{settings.protocol} needs a user and a password",
            next_step=f"Give them in {JAAS}, or as sasl.username and sasl.password",
        )


def _check_mode(path: Path, secret: str) -> None:
    """Refused, because a warning in the log of a build has no readers; a mounted secret can be given another mode."""
    mode = path.stat().st_mode
    if mode & stat.S_IROTH:
        raise AccessRefused(
            f"{path} holds {secret}",
            evidence=f"every user of this machine can read it (mode {stat.S_IMODE(mode):04o})",
            next_step=f"Run: chmod o= {path}",
        )
