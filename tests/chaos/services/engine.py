"""Starts a container engine for one test, in its own folder and mount namespace, and removes it afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.services.cache_folders import cache_folder
from sinkproof.chaos.services.running_services import await_exit
from sinkproof.subject.scratch import fresh_folder

START_SECONDS = 60.0  # takes 1
END_SECONDS = 30.0
# Redirects writes of the engine outside of its own folders; these mounts exist in its namespace only.
APART = """
mount -t tmpfs tmpfs /opt
mount -t overlay overlay -o lowerdir=/etc,upperdir=$1/etc,workdir=$1/work /etc
shift
exec "$@"
"""


class NoEngine(Exception):
    """An engine may not be started here, or does not run; the text is the evidence."""


@contextmanager
def engine_of_our_own() -> Iterator[str]:
    """Yields its address; raises NoEngine."""
    unpacked = cache_folder() / "engine"  # by .ci/engine
    path = os.pathsep.join([os.environ["PATH"], *(str(unpacked / part) for part in ("usr/sbin", "usr/bin"))])
    libraries = os.pathsep.join(str(unpacked / part / f"{os.uname().machine}-linux-gnu") for part in ("lib", "usr/lib"))
    if os.geteuid() != 0:
        raise NoEngine("only root can start an engine, and this is another user")
    if shutil.which("dockerd", path=path) is None:
        raise NoEngine("there is no dockerd on the PATH, and .ci/engine could unpack none")
    folder = fresh_folder(home=Path(tempfile.gettempdir()))
    for name in ("etc", "work"):
        (folder / name).mkdir()
    address = f"unix://{folder}/docker.sock"
    places = [f"--{what}={folder}/{what}" for what in ("data-root", "exec-root", "pidfile")]
    offline = ["--bridge=none", "--iptables=false", "--ip-forward=false", "--ip-masq=false", f"--host={address}"]
    unshared = ["unshare", "--mount", "--propagation", "private", "sh", "-eu", "-c", APART, "apart", str(folder)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*unshared, "dockerd", *places, *offline],
            env={**os.environ, "PATH": path, "LD_LIBRARY_PATH": libraries},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _await(process, folder)
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(END_SECONDS)
        finally:
            process.kill()
            process.wait()
            shutil.rmtree(folder)


def _await(process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = Deadline(START_SECONDS)
    while process.poll() is None and not deadline.over:
        if (folder / "docker.sock").exists() and _answers(folder):
            return
        await_exit(process.pid, 0.1)
    output = (folder / "log").read_text().strip().splitlines()
    raise NoEngine(f"dockerd was started and does not run: {' | '.join(output[-3:]) or 'it has printed nothing'}")


def _answers(folder: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(1.0)
        try:
            caller.connect(f"{folder}/docker.sock")
            caller.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b"200 OK" in caller.recv(4096)
        except OSError:
            return False
