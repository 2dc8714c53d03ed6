"""Starts and ends Spark sessions: fast, without any setup by the user, and without leaving files behind.

Everything that Spark writes goes below one folder of the caller's, and a session's end is the end of its JVM.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from sinkproof.chaos.processes.parent_death import die_with
from sinkproof.reference_engine.shells.spark.host_addresses import (
    LOOPBACK,
    master_address,
    on_one_host,
    own_address,
)
from sinkproof.reference_engine.shells.spark.java_installation import check_available, quoted
from sinkproof.reference_engine.shells.spark.spark_class_archive import (
    TRAINING_SECONDS,
    archive_options,
    prepare_archive,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
FAST_JAVA: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # C1 only: the JVM lives for seconds, and the work is done in Python
    "-XX:-UsePerfData",  # no /tmp/hsperfdata_*
    "-Xshare:auto",
    "-Xlog:disable",  # an archive that does not fit is said on stdout, which is the artefact's
    "-Xlog:all=error:stderr",
    "-XX:+IgnoreUnrecognizedVMOptions",  # of another Java than the ones these were tried with
)
LOGGING: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
SOCKET_PATH_BYTES_MOST: Final = 107  # sun_path of Linux holds 108 with the 0 at its end
SOCKET_NAME_BYTES: Final = len("/.") + 36 + len(".sock")  # Spark names its sockets by a UUID
END_SECONDS: Final = 5.0  # of a JVM that was ordered to end; it takes 0.3
TRAINING_STREAM_SECONDS: Final = 4  # a few micro-batches


def start_session(
    *, master: str = "local[2]", folder: Path, settings: Mapping[str, str] = NO_SETTINGS, here: Path | None = None
) -> SparkSession:
    """A new session and its JVM, with their files in `folder`. One at a time in a process.

    `here`: the working directory of the JVM, if it is not `folder`, too.
    `settings` win over ours, but for Java options, which are added. Raises SparkUnavailable.
    """
    check_available()
    options = _added(settings, *archive_options(FAST_JAVA))
    return _start(master, folder.resolve(), {**settings, JAVA_OPTIONS: options}, here=here or folder)


def stop_session(session: SparkSession, *, seconds: float = END_SECONDS) -> None:
    """Stops it, and returns when its JVM is gone. May be called again, and after the JVM has died by itself.

    `seconds`: how long the JVM is given before it is killed.
    """
    gateway: Any = session.sparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None or process.returncode is not None:
        return
    if process.poll() is None:
        for call in (session.stop, gateway.shutdown):
            with suppress(Exception):  # a border: py4j raises what it likes when the JVM dies under the call
                call()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()  # the JVM ends at the end of its input
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _forget_gateway()


def _start(master: str, folder: Path, settings: Mapping[str, str], *, here: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    for name in ("local", "tmp", "warehouse"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "log4j2.properties").write_text(LOGGING)
    chosen = {**_settings(master, folder), **settings}
    chosen[JAVA_OPTIONS] = _added(settings, *_java_options(folder))
    builder = SparkSession.builder.master(master)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    with _started_in(here, local=folder / "local"):
        session = builder.getOrCreate()
    atexit.register(stop_session, session)
    return session


def _added(settings: Mapping[str, str], *options: str) -> str:
    return " ".join([*options, settings.get(JAVA_OPTIONS, "")]).strip()


def _settings(master: str, folder: Path) -> dict[str, str]:
    from pyspark import __version__ as version

    chosen = {
        "spark.app.name": "sinkproof",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        # renames within one file system are atomic without Hadoop's FileContext, which starts a process for each
        "spark.sql.streaming.checkpointFileManagerClass": checkpoint_file_manager(version),
    }
    towards = master_address(master)
    if on_one_host(master) or towards is not None:
        host = own_address(towards) if towards is not None else LOOPBACK
        chosen |= {"spark.driver.host": host, "spark.driver.bindAddress": host}
    if on_one_host(master) and len(os.fsencode(folder / "tmp")) + SOCKET_NAME_BYTES <= SOCKET_PATH_BYTES_MOST:
        chosen["spark.python.unix.domain.socket.enabled"] = "true"
        chosen["spark.python.unix.domain.socket.dir"] = str(folder / "tmp")
    return chosen


def checkpoint_file_manager(version: str) -> str:
    """Of this version of Spark: 4.1 has moved it into a package of its own."""
    package = "" if version.startswith("4.0.") else "checkpointing."
    return f"org.apache.spark.sql.execution.streaming.{package}FileSystemBasedCheckpointFileManager"


def _java_options(folder: Path) -> list[str]:
    return [
        *FAST_JAVA,
        f"-Djava.io.tmpdir={quoted(folder / 'tmp')}",
        f"-Dlog4j2.configurationFile={quoted((folder / 'log4j2.properties').as_uri())}",
        f"-Dderby.system.home={quoted(folder)}",
    ]


@contextmanager
def _started_in(folder: Path, *, local: Path) -> Iterator[None]:
    """The environment and the working directory that the JVM inherits; ours are as before when it runs."""
    wanted = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LAUNCHER_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -XX:-UsePerfData",
        "SPARK_LOCAL_DIRS": str(local),
    }
    not_wanted = ("PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
    before = {name: os.environ.get(name) for name in (*wanted, *not_wanted)}
    for name in not_wanted:
        os.environ.pop(name, None)
    os.environ.update(wanted)
    try:
        with chdir(folder):
            yield
    finally:
        for name, value in before.items():
            if name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
                continue  # read again when tasks are started
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _forget_gateway() -> None:
    """PySpark keeps the gateway of a dead JVM in class attributes, and would use it for the next session."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def be_trained() -> None:
    """What sessions do at their start and in a first micro-batch. Arguments: parent's pid, folder, archive."""
    parent, folder, archive = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    die_with(parent)
    made_at_exit = f"-XX:ArchiveClassesAtExit={quoted(archive)}"
    session = _start("local[2]", folder, {JAVA_OPTIONS: made_at_exit}, here=folder)
    rows = session.createDataFrame([(0, 0, "k", "v", 0)], "split int, offset long, key string, value string, at long")
    for form in ("json", "parquet"):
        rows.write.mode("append").format(form).save(str(folder / form))
        assert session.read.format(form).load(str(folder / form)).groupBy("split").count().collect()
    assert session.sparkContext.parallelize(range(2), 2).mapPartitions(list).collect()
    stream = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load()
    query = stream.writeStream.foreachBatch(_look).option("checkpointLocation", str(folder / "checkpoint")).start()
    query.awaitTermination(TRAINING_STREAM_SECONDS)
    query.stop()
    stop_session(session, seconds=TRAINING_SECONDS)


def _look(frame: DataFrame, batch: int) -> None:
    frame.collect()


if __name__ == "__main__":
    be_trained() if sys.argv[1:] else prepare_archive(FAST_JAVA)
