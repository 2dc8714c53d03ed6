"""The file of an address: what is read from it, what is refused, and that no value of it is ever printed."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from sinkproof.chaos.kafka_client.client_settings import (
    AccessRefused,
    absolute,
    brokers_of,
    client_options,
    settings_of,
)

PASSWORD = 'pa"ss;word=#1'
QUOTED = PASSWORD.replace('"', '\\\\"')
OF_KAFKA = f"""
# as Kafka's own tools take it
bootstrap.servers=elsewhere:1
security.protocol=SASL_SSL
sasl.mechanism = SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="alice" password="{QUOTED}";
ssl.truststore.type=PEM
ssl.truststore.location=ca.pem
ssl.keystore.location=client.pem
ssl.key.password=key-secret
ssl.endpoint.identification.algorithm=
"""
OF_LIBRDKAFKA = f"""
security.protocol=SASL_SSL
sasl.mechanisms=PLAIN
sasl.username=alice
sasl.password={PASSWORD}
ssl.ca.location=ca.pem
"""
Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file of settings; returns an address with it."""
    for name in ("ca.pem", "client.pem"):
        (tmp_path / name).write_text("-----BEGIN CERTIFICATE-----\n")
    (tmp_path / "store.jks").write_bytes(b"\xfe\xed\xfe\xed")

    def written(text: str) -> str:
        file = tmp_path / "client.properties"
        file.write_text(text)
        file.chmod(0o640)
        return f"one:9093,two:9093@{file}"

    return written


def test_an_address_without_a_file_is_a_plain_listener() -> None:
    assert {"bootstrap.servers": "one:1,two:2"} == client_options("one:1,two:2")
    assert ["one:1", "two:2"] == brokers_of("one:1,two:2@/some/file")


def test_settings_of_kafkas_own_tools_become_those_of_the_client(write: Write, tmp_path: Path) -> None:
    expected = {
        "bootstrap.servers": "one:9093,two:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.certificate.location": str(tmp_path / "client.pem"),
        "ssl.key.location": str(tmp_path / "client.pem"),
        "ssl.key.password": "key-secret",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert expected == client_options(write(OF_KAFKA))


def test_names_of_librdkafka_mean_the_same(write: Write) -> None:
    settings = settings_of(write(OF_LIBRDKAFKA))
    assert ("PLAIN", "alice", PASSWORD, True) == (
        settings.mechanism,
        settings.user,
        settings.password,
        settings.checks_host_name,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OF_KAFKA.replace("SASL_SSL", "TLS"), "security.protocol is TLS. Known are PLAINTEXT, SSL"),
        ("sasl.username=alice", "security.protocol is missing. Known are PLAINTEXT"),
        (OF_KAFKA.replace("SCRAM-SHA-512", "GSSAPI"), "sasl.mechanism is GSSAPI. Known are PLAIN"),
        (OF_KAFKA.replace("ca.pem", "none.pem"), r"none.pem, which cannot be read: No such file"),
        (OF_KAFKA.replace("ca.pem", "store.jks"), r"store.jks: it is no PEM file. .*keytool"),
        (OF_KAFKA.replace("=PEM", "=JKS"), "ssl.truststore.type: that is no setting that every client"),
        (
            OF_KAFKA.replace("algorithm=", "algorithm=http"),
            r"ssl.endpoint.identification.algorithm is http. Known are https, none, an empty one",
        ),
        (OF_KAFKA + "ssl.protocol=TLSv1.3\n", "has ssl.protocol: that is no setting"),
        (OF_KAFKA.replace("username", "nickname"), "it has no username and password"),
        (OF_LIBRDKAFKA.replace("sasl.username=alice", ""), "needs a user and a password"),
        (OF_LIBRDKAFKA + "broken=\\u12\n", "is no file of settings"),
    ],
)
def test_what_cannot_be_followed_is_refused_in_words_without_a_value(write: Write, text: str, said: str) -> None:
    with pytest.raises(AccessRefused, match=said) as refused:
        client_options(write(text))
    shown = "".join(traceback.TracebackException.from_exception(refused.value, capture_locals=True).format())
    assert "test_client_settings" in shown
    for secret in ("ss;word", "key-secret"):
        assert secret not in shown.replace(repr(text), "")  # the argument of this test


def test_a_password_that_every_user_can_read_is_refused(write: Write, tmp_path: Path) -> None:
    address, file = write(OF_LIBRDKAFKA), tmp_path / "client.properties"
    file.chmod(0o644)
    with pytest.raises(AccessRefused, match=r"mode 0644\). Run: chmod o= /"):
        settings_of(address)
    file.write_text("security.protocol=SSL\nssl.ca.location=ca.pem\n")
    assert settings_of(address).encrypts, "without a password there is nothing to hide"


@pytest.mark.parametrize("begins", ["", "RSA ", "EC "])
@pytest.mark.parametrize("name", ["client.pem", "key.pem"])
def test_a_private_key_that_every_user_can_read_is_refused(
    write: Write, tmp_path: Path, name: str, begins: str
) -> None:
    address = write("security.protocol=SSL\nssl.keystore.location=client.pem\nssl.key.location=key.pem\n")
    for each in ("client.pem", "key.pem"):
        (tmp_path / each).write_text("-----BEGIN CERTIFICATE-----\n")
    key = tmp_path / name
    key.write_text(f"-----BEGIN CERTIFICATE-----\n-----BEGIN {begins}PRIVATE KEY-----\nAAAA\n")
    key.chmod(0o644)
    with pytest.raises(AccessRefused, match=rf"{name} holds a private key: every .*mode 0644\). Run: chmod o= /"):
        settings_of(address)
    key.chmod(0o640)
    assert str(tmp_path / "key.pem") == settings_of(address).key


@pytest.mark.parametrize(
    "begins", ["-----BEGIN ENCRYPTED PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED"]
)
def test_an_encrypted_key_may_be_read_by_every_user(write: Write, tmp_path: Path, begins: str) -> None:
    address, key = write("security.protocol=SSL\nssl.keystore.location=client.pem\n"), tmp_path / "client.pem"
    key.write_text(f"{begins}\nAAAA\n")
    key.chmod(0o644)
    assert str(key) == settings_of(address).key


@pytest.mark.parametrize(
    ("value", "followed"), [("", "none"), ("none", "none"), ("NONE", "none"), ("https", "https"), ("HTTPS", "https")]
)
def test_the_name_of_the_broker_is_checked_as_the_file_says(write: Write, value: str, followed: str) -> None:
    address = write(f"security.protocol=SSL\nssl.endpoint.identification.algorithm={value}\n")
    assert followed == client_options(address)["ssl.endpoint.identification.algorithm"]
    assert (followed == "https") == settings_of(address).checks_host_name


def test_a_missing_file_and_a_relative_one_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AccessRefused, match="cannot be read: No such file"):
        settings_of(f"one:1@{tmp_path}/none")
    with pytest.raises(AccessRefused, match="Name it by its absolute path"):
        settings_of("one:1@client.properties")
    monkeypatch.chdir(tmp_path)
    assert f"external:one:1@{tmp_path}/client.properties" == absolute("external:one:1@client.properties")
    assert "external:one:1" == absolute("external:one:1")


def test_no_dictionary_and_no_value_shows_the_password(write: Write) -> None:
    address = write(OF_KAFKA)
    shown = f"{client_options(address)} {settings_of(address)}"
    assert "alice" in shown
    assert "ss;word" not in shown
    assert "key-secret" not in shown


def test_kafka_python_is_loaded_by_none_of_the_modules_that_may_need_it_later() -> None:
    names = "sink_adapters.registry pipeline.topic_recipes canaries.kafka subject.kafka_service certifier.certify"
    lines = [*(f"import sinkproof.{name}" for name in names.split()), "import sys", "print('kafka' in sys.modules)"]
    run = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert "False\n" == run.stdout
