"""`make soak-hosts`: `sinkproof run etl` on three hosts, one of which dies a hundred times; exact in the end.

Records are added to the topic all the while. A host dies in the middle: mostly the one on which the job runs, and each
sixth time that of master, driver and coordinator. The next one dies when readers of committed records see more than
before. If the command itself ends, the same command is started again. Exit status: 0 if every record is there once, and
no process is left; else 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sinkproof.chaos.clock import Deadline, now
from sinkproof.chaos.processes.process_table import descendants, parents_of_all
from sinkproof.chaos.services.spark_cluster.host_commands import HostCommands
from sinkproof.chaos.services.spark_cluster.standing_cluster import NAME, standing_cluster
from sinkproof.reference_engine.inputs.kafka_group import TopicView
from sinkproof.subject.scratch import scratch_folder

OF_DRIVER_EACH: Final = 6
PARTITIONS: Final = 2
RECORDS_PER_TICK, TICK_SECONDS = 20, 0.1
MORE: Final = 60  # records that readers must see after a death, before the next one
STILL_SECONDS: Final = 300.0  # without them, until the job is given up
AT_ANY_MOMENT_SECONDS: Final = 1.0
SINKPROOF: Final = (sys.executable, "-m", "sinkproof")


class Feeder(threading.Thread):
    """Adds numbered records until it is stopped."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(daemon=True)
        self.producer = Producer({"bootstrap.servers": endpoint, "enable.idempotence": True})
        self.records, self.over = 0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(TICK_SECONDS):
            for _ in range(RECORDS_PER_TICK):
                self.producer.produce("in", key=f"key-{self.records % 7}", value=str(self.records))
                self.records += 1
            self.producer.poll(0)
        self.producer.flush()


class Etl:
    """The command, which is started again when it ends by itself."""

    def __init__(self, folder: Path, *, endpoint: str, master: str) -> None:
        self.folder, self.commands = folder, 0
        self.line = [*SINKPROOF, "run", "etl", "--from", "kafka:in", "--to", "kafka:out", "--kafka", endpoint]
        self.line += ["--master", master, "--wait-for-executors", "120s", "--json", "--log-format", "json"]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        self.commands += 1
        with open(self.folder / "etl.log", "ab") as log, open(self.folder / "etl.out", "wb") as out:
            self.process = subprocess.Popen([*self.line, *more], cwd=self.folder, stdout=out, stderr=log)
        return self.process

    def keep_running(self) -> None:
        if self.process is None or self.process.poll() is not None:
            self.start()

    def summary(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "etl.out").read_text()))

    @property
    def log(self) -> str:
        return (self.folder / "etl.log").read_text()[-3000:]


class Soak:
    def __init__(self, etl: Etl, hosts: HostCommands, view: TopicView) -> None:
        self.etl, self.hosts, self.view = etl, hosts, view
        self.random = random.Random(1)
        self.dead: Counter[int] = Counter()
        self.slowest = 0.0

    def seen(self) -> int:
        return sum(self.view.extent()[1].values())

    def await_more(self) -> None:
        goal, deadline, began = self.seen() + MORE, Deadline(STILL_SECONDS), now()
        while self.seen() < goal:
            self.etl.keep_running()
            if deadline.over:
                raise SystemExit(f"no progress in {STILL_SECONDS:.0f} s: {self.etl.log}")
            threading.Event().wait(TICK_SECONDS)
        self.slowest = max(self.slowest, now() - began)

    def kill_next(self) -> None:
        threading.Event().wait(self.random.uniform(0, AT_ANY_MOMENT_SECONDS))
        number = self.dead.total() + 1
        workers = range(1, self.hosts.count)
        host = max(workers, key=lambda each: len(self.hosts.processes(each))) if number % OF_DRIVER_EACH else 0
        killed = self.hosts.kill(host)
        self.dead[host] += bool(killed)
        print(f"{now():9.1f}  death {number}: host {host}, {len(killed)} processes; {self.seen():,} seen", flush=True)


def committed(endpoint: str) -> Counter[int]:
    options = {"bootstrap.servers": endpoint, "group.id": "soak", "isolation.level": "read_committed"}
    reader = Consumer({**options, "enable.auto.commit": False, "enable.partition.eof": True})
    reader.assign([TopicPartition("out", number, 0) for number in range(PARTITIONS)])
    found, left = Counter[int](), set(range(PARTITIONS))
    while left:
        message = reader.poll(30)
        assert message is not None, "the broker is silent"
        if message.error():
            left.discard(message.partition())
        else:
            found[int(message.value())] += 1
    reader.close()
    return found


def soak(folder: Path, *, kills: int) -> int:
    start = [*SINKPROOF, "services", "start", "kafka", NAME, "--shared", str(folder), "--json"]
    started = subprocess.run(start, cwd=folder, stdout=subprocess.PIPE, check=True)
    endpoint, master = (row["endpoint"] for row in json.loads(started.stdout))
    admin = AdminClient({"bootstrap.servers": endpoint})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in ("in", "out")]).values():
        made.result()
    known, feeder, etl = standing_cluster(master), Feeder(endpoint), Etl(folder, endpoint=endpoint, master=master)
    assert known is not None
    feeder.start()
    etl.start()
    going = Soak(etl, known.hosts, TopicView(endpoint, "out", seconds=30.0))
    going.await_more()
    while going.dead.total() < kills:
        going.kill_next()
        going.await_more()
    feeder.over.set()
    feeder.join()
    assert etl.process is not None
    etl.process.send_signal(signal.SIGINT)
    etl.process.wait()
    restarts = etl.summary().get("restarts", 0)
    commands = etl.commands
    assert etl.start("--until-end").wait() == 0, etl.log
    found = committed(endpoint)
    lost = feeder.records - len(found)
    repeated = sum(found.values()) - len(found)
    print(
        f"{feeder.records:,} records over {going.dead.total()} dead hosts ({going.dead[0]} times that of the driver): "
        f"{lost} lost, {repeated} repeated; {commands} commands, {restarts} restarts in the last; "
        f"slowest recovery {going.slowest:.0f} s"
    )
    return 1 if lost or repeated or set(found) != set(range(feeder.records)) else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    chosen = parser.parse_args()
    with scratch_folder() as folder:
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        try:
            status = soak(folder, kills=chosen.kills)
        finally:
            subprocess.run([*SINKPROOF, "services", "stop"], cwd=folder, check=True)
    left = descendants(os.getpid(), parents_of_all())
    print(f"processes left: {left or 'none'}")
    return 1 if status or left else 0


if __name__ == "__main__":
    sys.exit(main())
