"""Runs the nodes of a service in containers, by testcontainers, on any engine with Docker's API.

The image is built from this machine's Java and jars only; no image is pulled. Its files have the same paths as on this
machine, the folder of the service is mounted at its own path, and the network is the host's: so a command, an address
and a setting mean the same inside and outside.

The daemon of a service ends its containers, so testcontainers' own reaper is switched off.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sinkproof.chaos.optional_packages import install_command
from sinkproof.chaos.services.jvm import Installation, java_version
from sinkproof.chaos.services.service import Progress, ServiceUnavailable

if TYPE_CHECKING:
    from docker import DockerClient as DockerEngine

LABEL: Final = "sinkproof.folder"  # of a container: the folder of its service
RECIPE: Final = 1  # part of an image's tag: raise it when the way to build images changes
WITHOUT: Final = ("jmods", "include", "man", "demo", "legal", "src.zip")  # of a Java that only runs programs
SIGNALLED: Final = 128  # plus the number of the signal that killed a process: its exit code in a container
UNIX: Final = "unix://"
USUAL: Final = "unix:///var/run/docker.sock"
START: Final = "Start one that answers, name it with DOCKER_HOST, or leave out `container`"


@contextmanager
def engine() -> Iterator[DockerEngine]:
    """A client of the running engine (Docker's own library). Raises ServiceUnavailable where none is running."""
    _without_reaper()
    try:
        from docker.errors import DockerException
        from testcontainers.core.docker_client import DockerClient, get_docker_host
    except ImportError as error:
        raise ServiceUnavailable(
            "containers are started by testcontainers",
            evidence=str(error),
            next_step=f"Run: {install_command('container')}",
        ) from error
    where = get_docker_host() or USUAL
    try:
        _check_socket(where)
        found = DockerClient().client
        found.ping()
    except (DockerException, OSError) as error:
        raise ServiceUnavailable(
            "no container engine answers", evidence=f"{where}: {error}", next_step=START
        ) from error
    try:
        yield found
    finally:
        found.close()


def _without_reaper() -> None:
    """Called before the import of testcontainers, which reads the variable once."""
    os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"


def _check_socket(where: str) -> None:
    """Raises OSError if the address refuses connections: Docker's own library would leave its socket open."""
    if where.startswith(UNIX):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(where.removeprefix(UNIX))


def engine_version() -> str:
    """Raises ServiceUnavailable."""
    with engine() as docker:
        return str(docker.version()["Version"])


# -- images ----------------------------------------------------------------------------------------


def in_image(installation: Installation, *, name: str, progress: Progress) -> Installation:
    """The same installation with an image, which is built if the engine does not have it, on an image of this Java."""
    libs = Path(installation.libs)
    inside = replace(installation, java=os.path.realpath(installation.java), options=())
    home = Path(inside.java).parents[1]
    runtime = _tag("java", home, java_version(inside.java))
    _build_once(runtime, "scratch", lambda root: _copy_runtime(home, root), progress=progress)
    tag = _tag(name, runtime, libs, libs.stat().st_mtime_ns)
    _build_once(tag, runtime, lambda root: shutil.copytree(libs, _inside(root, libs)), progress=progress)
    return replace(inside, image=tag)


def _tag(name: str, *made_of: object) -> str:
    return f"sinkproof/{name}:{hashlib.sha256(repr((RECIPE, made_of)).encode()).hexdigest()[:12]}"


def _build_once(tag: str, base: str, fill: Callable[[Path], object], *, progress: Progress) -> None:
    """`fill` writes the files that are added to the base image into a folder."""
    from docker.errors import DockerException, ImageNotFound
    from testcontainers.core.image import DockerImage

    with engine() as docker, suppress(ImageNotFound):
        docker.images.get(tag)
        return
    progress(f"building the image {tag} (only the first time)")
    with tempfile.TemporaryDirectory(prefix="sinkproof-image-") as context:
        try:
            fill(Path(context, "root"))
            Path(context, "Dockerfile").write_text(f"FROM {base}\nCOPY root /\n")
            image = DockerImage(path=context, tag=tag, clean_up=False, rm=True)
            with closing(image.get_docker_client().client):
                image.build()
        except (DockerException, OSError) as error:
            raise ServiceUnavailable(
                f"the image {tag} cannot be built", evidence=str(error), next_step="See the engine's own log"
            ) from error


def _copy_runtime(home: Path, root: Path) -> None:
    """Copies this Java and its shared libraries."""
    _copy_java(home, _inside(root, home))
    for library in _libraries(home):
        target = _inside(root, library)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
    (root / "tmp").mkdir(mode=0o777, exist_ok=True)


def _inside(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _copy_java(home: Path, target: Path) -> None:
    """A runtime made by jlink where that is installed; else a copy of this Java."""
    linker, modules = home / "bin" / "jlink", home / "jmods"
    if not (linker.exists() and modules.is_dir()):
        shutil.copytree(home, target, ignore=shutil.ignore_patterns(*WITHOUT), ignore_dangling_symlinks=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    what = ["--module-path", str(modules), "--add-modules", "ALL-MODULE-PATH"]
    command = [str(linker), *what, "--no-header-files", "--no-man-pages", "--strip-debug", "--output", str(target)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"jlink: {(done.stderr or done.stdout).strip()}")


def _libraries(home: Path) -> list[Path]:
    """The shared libraries that the programs of this Java need, with their paths on this machine, and the loader."""
    programs = [home / "bin" / "java", *sorted(home.glob("lib/**/*.so"))]
    done = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False)
    words = {word for line in done.stdout.splitlines() if line.startswith("\t") for word in line.split()}
    return sorted(Path(word) for word in words if word.startswith("/") and not Path(word).is_relative_to(home))


# -- a node ----------------------------------------------------------------------------------------


class ContainerNode:
    """A node in a container of its own, as a NodeProcess of service_daemon.py. Errors of the engine are OSErrors."""

    def __init__(self, request: dict[str, Any], folder: Path, output: Path) -> None:
        self.output, self.end_requested = output, False
        _without_reaper()
        with _engine_errors():
            from docker.errors import DockerException
            from testcontainers.core.container import DockerContainer

            self.container = DockerContainer(request["image"]).with_command(request["command"])
            self.container.with_volume_mapping(folder, str(folder), "rw").with_kwargs(
                network_mode="host",
                user=f"{os.getuid()}:{os.getgid()}",
                working_dir=str(folder),
                labels={LABEL: str(folder)},
            )
            try:
                self._container = self.container.start().get_wrapped_container()
            except DockerException:
                self.end()  # it may have been created, but not started
                raise

    def status(self) -> dict[str, Any]:
        with _engine_errors():
            self._container.reload()
            state = self._container.attrs["State"]
            ended = not (state["Running"] or state["Paused"])
            if ended:
                self.output.write_bytes(self._container.logs(tail=200))
        code = int(state["ExitCode"]) if ended else None
        return {
            "pid": int(state["Pid"]),
            "exit_status": code if code is None or code <= SIGNALLED else SIGNALLED - code,
            "stopped": bool(state["Paused"]),
            "end_requested": self.end_requested,
        }

    def signal(self, number: int) -> None:
        """A no-op for a node that has ended."""
        self.end_requested = self.end_requested or number in (signal.SIGTERM, signal.SIGKILL)
        found = self.status()
        try:
            if found["exit_status"] is None:
                self._signal(number, stopped=found["stopped"])
        except OSError:
            if self.status()["exit_status"] is None:  # else it has ended in between
                raise

    def _signal(self, number: int, *, stopped: bool) -> None:
        with _engine_errors():
            if number not in (signal.SIGSTOP, signal.SIGCONT):
                self._container.kill(signal=int(number))
            elif number == signal.SIGSTOP and not stopped:
                self._container.pause()
            elif number == signal.SIGCONT and stopped:
                self._container.unpause()

    def end(self) -> None:
        """Kills and removes the container."""
        with suppress(OSError), _engine_errors():
            self.container.stop()


@contextmanager
def _engine_errors() -> Iterator[None]:
    from docker.errors import DockerException

    try:
        yield
    except DockerException as error:
        raise OSError(str(error)) from error


def sweep(folder: str) -> None:
    """Removes the containers of a daemon that was killed. Without an engine there is nothing to remove."""
    with suppress(OSError, ServiceUnavailable), engine() as docker, _engine_errors():
        for left in docker.containers.list(all=True, filters={"label": f"{LABEL}={folder}"}):
            left.remove(force=True, v=True)
