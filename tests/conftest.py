"""Fixtures of all tests, and the profile of Hypothesis."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: it would measure the machine. No database: a failure found once belongs into a test of its own, and two
# pytest workers would share the file.
settings.register_profile("project", deadline=None, database=None, print_blob=True)
settings.load_profile("project")

# Some shells start background processes with SIGINT ignored; commands under test must receive it.
signal.signal(signal.SIGINT, signal.default_int_handler)

IGNORED_WITHOUT_GIT = {"build", "dist", "__pycache__"}
IN_MEMORY = Path("/dev/shm")
ROOM_OF_TESTS = 2 << 30  # bytes: all folders of one run took 0.2 GiB


def pytest_configure() -> None:
    """Folders of tests are in memory, where there is room: SIGKILL loses no written byte there."""
    with suppress(OSError):
        if os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free >= ROOM_OF_TESTS:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))


def pytest_unconfigure(config: pytest.Config) -> None:
    """What pytest's workers share would end soon after us; a run is over when nothing of it runs any more."""
    from sinkproof.chaos.services.running_services import ServiceHandle, running

    for entry in [entry for entry in running() if entry.owner == os.getpid()]:
        ServiceHandle(entry).end()


@pytest.fixture(autouse=True)
def subjects_are_forgotten() -> Iterator[None]:
    """Loaded modules beside a subject count as its code: here they would be those of other tests."""
    known, path = {name.partition(".")[0] for name in sys.modules}, list(sys.path)
    yield
    added = [name for name in sys.modules if name.partition(".")[0] not in known]
    for name in [each for each in added if lies_in_no_library(sys.modules[each])]:
        del sys.modules[name]
    sys.path[:] = path
    if loading := sys.modules.get("sinkproof.subject.loading"):
        loading.load.cache_clear()


def lies_in_no_library(module: object) -> bool:
    from sinkproof.chaos.standard_library import is_installed, is_standard

    file = getattr(module, "__file__", None)
    return file is not None and not is_installed(Path(file)) and not is_standard(Path(file))


@pytest.fixture(autouse=True, scope="module")
def clients_are_closed() -> Iterator[None]:
    """A client that is left looks for its broker as long as this process lives, and keeps each error."""
    yield
    if reader := sys.modules.get("sinkproof.sink_adapters.kafka.topic_reader"):
        while reader.READERS:
            reader.READERS.popitem()[1].close()
    if cassandra := sys.modules.get("sinkproof.subject.cassandra_service"):
        cassandra.close_clients()
    if has_threads_of_clients():
        gc.collect()
        # The library has lost an exception that holds a sender: its thread would be busy for ever.
        for each in gc.get_objects():
            if type(each).__name__ == "RecordSender" and hasattr(each, "producer"):
                del each.producer


def has_threads_of_clients() -> bool:
    for file in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # it has ended
            if file.read_text().startswith("rdk:"):
                return True
    return False


@pytest.fixture(scope="session")
def watch_of_system_calls() -> None:
    """Skips a test, in one line, where the kernel or the container does not offer it."""
    from sinkproof.chaos.system_calls.watched_program import why_not_watched

    if why := why_not_watched():
        pytest.skip(f"system calls cannot be watched here: {why}")


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the checkout."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def project_files(project: Path) -> list[str]:
    """What git knows or would add, from the root, sorted. Without git: all but caches."""
    # safe.directory: the checkout may belong to another user than the test process.
    listing = ("git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    try:
        listed = subprocess.run(listing, cwd=project, capture_output=True, text=True, check=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        listed = [
            str(path.relative_to(project)) for path in project.rglob("*") if not looks_like_a_cache(path, project)
        ]
    return sorted({name for name in listed if name and (project / name).is_file()})


def looks_like_a_cache(path: Path, project: Path) -> bool:
    first, *_ = parts = path.relative_to(project).parts
    hidden = first.startswith(".") and first not in (".ci", ".gitignore")
    return hidden or first.endswith(".egg-info") or not IGNORED_WITHOUT_GIT.isdisjoint(parts)


@pytest.fixture(scope="session")
def command_environment() -> dict[str, str]:
    """An environment for commands run as a user would: `sinkproof` and `python` are those of this interpreter. What an
    earlier command has kept is not used.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1", "SINKPROOF_FRESH": "1"}


@pytest.fixture
def sinkproof_command(
    command_environment: dict[str, str], tmp_path: Path
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `sinkproof` in a folder of its own; a hang is ended by pytest-timeout."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sinkproof", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=command_environment, capture_output=True, text=True)

    return run


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """The console command in this process: (status, stdout, stderr)."""
    from sinkproof.cli.main import main

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sinkproof", *arguments])
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code, *capfd.readouterr())  # type: ignore[return-value]

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)
