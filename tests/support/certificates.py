"""Certificates for servers of tests, by an authority of their own, as PEM files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
LONG_OVER = datetime(2002, 1, 1, tzinfo=UTC)


def issue(folder: Path, *names: str, expired: bool = False) -> tuple[Path, Path]:
    """(the authority; key and certificate of a server with these names)."""
    authority = trustme.CA()
    made = authority.issue_cert(*names, not_before=LONG_AGO, not_after=LONG_OVER if expired else None)
    ours, theirs = folder / "ca.pem", folder / "server.pem"
    authority.cert_pem.write_to_path(str(ours))
    theirs.touch(mode=0o600)
    key = load_pem_private_key(made.private_key_pem.bytes(), None)  # Java reads keys in this form only:
    theirs.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    for certificate in made.cert_chain_pems:
        certificate.write_to_path(str(theirs), append=True)
    return ours, theirs
