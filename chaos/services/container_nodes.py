"""Nodes in containers, by testcontainers, wherever an engine answers that takes Docker's requests.

The image is made here, from nothing but the Java and the jars that processes of this machine would be started with,
and nothing is pulled. All is in it at the paths that it has here, the folder of the service is mounted at its own, and
the network is this machine's: so a command, an address and a setting mean the same inside and outside.

Whoever keeps a service ends its containers, so the reaper that testcontainers would start beside them has no work.
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

from sinkproof.chaos.services.jvm import java_version
from sinkproof.chaos.services.local_service import Installation
from sinkproof.chaos.services.service import Progress, ServiceUnavailable

if TYPE_CHECKING:
    from docker import DockerClient as DockerEngine

LABEL: Final = "sinkproof.folder"  # of a container: whose it is
RECIPE: Final = 1  # of images: one that was made by another one is another image
WITHOUT: Final = ("jmods", "include", "man", "demo", "legal", "src.zip")  # of a Java that is only to run
SIGNALLED: Final = 128  # and the number of a signal: how an engine says what a process died of
UNIX: Final = "unix://"
USUAL: Final = "unix:///var/run/docker.sock"
START: Final = "Start one that answers, name it with DOCKER_HOST, or leave out `container`"
INSTALL: Final = "Run: pip install 'sinkproof[container]'"


@contextmanager
def engine() -> Iterator[DockerEngine]:
    """A way to the one that answers, as Docker's own library has it. Raises ServiceUnavailable where none does."""
    _without_reaper()
    try:
        from docker.errors import DockerException
        from testcontainers.core.docker_client import DockerClient, get_docker_host
    except ImportError as error:
        raise ServiceUnavailable(
            "containers are started by testcontainers", evidence=str(error), next_step=INSTALL
        ) from error
    where = get_docker_host() or USUAL
    try:
        _knock(where)
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
    """Said before testcontainers is imported: it is read once."""
    os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"


def _knock(where: str) -> None:
    """Docker's own library leaves a socket open where nobody listens."""
    if where.startswith(UNIX):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(where.removeprefix(UNIX))


def engine_version() -> str:
    """Of the one that answers. Raises ServiceUnavailable."""
    with engine() as docker:
        return str(docker.version()["Version"])


# -- images ----------------------------------------------------------------------------------------


def in_image(installation: Installation, *, name: str, progress: Progress) -> Installation:
    """The same, to be run in containers: its image is built if the engine does not have it, on one of this Java."""
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
    """`fill` makes what is added to the base, below the folder that it is given."""
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
    """This Java, and what the system's linker would load for it."""
    _copy_java(home, _inside(root, home))
    for library in _libraries(home):
        target = _inside(root, library)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
    (root / "tmp").mkdir(mode=0o777, exist_ok=True)


def _inside(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _copy_java(home: Path, target: Path) -> None:
    """A runtime of its own, linked for the purpose, where there is a linker; else the Java as it is."""
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
    """What the system's linker would load for anything in this Java, where it finds it: also the linker itself."""
    programs = [home / "bin" / "java", *sorted(home.glob("lib/**/*.so"))]
    done = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False)
    words = {word for line in done.stdout.splitlines() if line.startswith("\t") for word in line.split()}
    return sorted(Path(word) for word in words if word.startswith("/") and not Path(word).is_relative_to(home))


# -- a node ----------------------------------------------------------------------------------------


class ContainedNode:
    """See keeper.Node: one process of a service, in a container of its own. What an engine refuses is an OSError."""

    def __init__(self, request: dict[str, Any], folder: Path, output: Path) -> None:
        self.output, self.ordered = output, False
        _without_reaper()
        with _told():
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
                self._inside = self.container.start().get_wrapped_container()
            except DockerException:
                self.end()  # it may have been made, and not started
                raise

    def look(self) -> dict[str, Any]:
        with _told():
            self._inside.reload()
            state = self._inside.attrs["State"]
            over = not (state["Running"] or state["Paused"])
            if over:
                self.output.write_bytes(self._inside.logs(tail=200))
        status = int(state["ExitCode"]) if over else None
        return {
            "pid": int(state["Pid"]),
            "status": status if status is None or status <= SIGNALLED else SIGNALLED - status,
            "stopped": bool(state["Paused"]),
            "ordered": self.ordered,
        }

    def signal(self, number: int) -> None:
        """A no-op for one that has ended."""
        self.ordered = self.ordered or number in (signal.SIGTERM, signal.SIGKILL)
        found = self.look()
        try:
            if found["status"] is None:
                self._signal(number, stopped=found["stopped"])
        except OSError:
            if self.look()["status"] is None:  # else it has ended by itself just now
                raise

    def _signal(self, number: int, *, stopped: bool) -> None:
        with _told():
            if number not in (signal.SIGSTOP, signal.SIGCONT):
                self._inside.kill(signal=int(number))
            elif number == signal.SIGSTOP and not stopped:
                self._inside.pause()
            elif number == signal.SIGCONT and stopped:
                self._inside.unpause()

    def end(self) -> None:
        """It is gone, whatever it was doing."""
        with suppress(OSError), _told():
            self.container.stop()


@contextmanager
def _told() -> Iterator[None]:
    from docker.errors import DockerException

    try:
        yield
    except DockerException as error:
        raise OSError(str(error)) from error


def sweep(folder: str) -> None:
    """Removes what a keeper that was killed has left in the engine. One that is gone by now has taken it along."""
    with suppress(OSError, ServiceUnavailable), engine() as docker, _told():
        for left in docker.containers.list(all=True, filters={"label": f"{LABEL}={folder}"}):
            left.remove(force=True, v=True)
