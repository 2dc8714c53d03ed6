"""How much memory the processes of a job on Spark use, by role; a role follows from the parent process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sinkproof.chaos.processes.process_table import parents_of_all
from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CHILDREN = {"driver": "keeper", "keeper": "coordinator", "JVM": "daemon", "daemon": "worker", "worker": "attempt"}
GROWTH_MOST = 1.25  # between the first quarter and the last
GROWTH_FREE_BYTES = 48 << 20  # caches that fill, fragmentation; a leak of one batch a second is 1 GB in an hour
JVM_BYTES_MOST = 1 << 30  # the garbage collector may let it grow up to its -Xmx


def roles(cluster: Cluster) -> dict[int, str]:
    """pid -> what it is, of every process that is there for the job; "soak" is this one."""
    if cluster.process is None or not cluster.alive:
        return {}
    parents = parents_of_all()
    found = {os.getpid(): "soak", cluster.process.pid: "driver", cluster.jvm: "JVM"}
    level = [cluster.process.pid, cluster.jvm]
    while level:
        below = {pid: CHILDREN.get(found[parent]) for pid, parent in parents.items() if parent in level}
        level = [pid for pid, role in below.items() if role is not None and pid not in found]
        found |= {pid: str(below[pid]) for pid in level}
    return found


def sample(cluster: Cluster) -> dict[str, int]:
    """Role -> bytes of the largest process in it."""
    found: dict[str, int] = {}
    for pid, role in roles(cluster).items():
        try:
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except OSError:
            continue  # it has just ended
        found[role] = max(found.get(role, 0), pages * PAGE_BYTES)
    return found


def summary(samples: list[dict[str, int]]) -> dict[str, dict[str, int]]:
    """For each role: what is usual in the first quarter of the samples and in the last, and the most there ever was."""
    found = {}
    for role in sorted({role for each in samples for role in each}):
        of = [each[role] for each in samples if role in each]
        quarter = max(1, len(of) // 4)
        found[role] = {
            "start_bytes": sorted(of[:quarter])[quarter // 2],
            "end_bytes": sorted(of[-quarter:])[quarter // 2],
            "most_bytes": max(of),
        }
    return found


def grown(found: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Roles with memory that is not flat."""
    return [role for role, of in found.items() if of["end_bytes"] > most_at_the_end(role, of["start_bytes"])]


def most_at_the_end(role: str, start_bytes: int) -> float:
    return max(JVM_BYTES_MOST if role == "JVM" else 0, GROWTH_MOST * start_bytes + GROWTH_FREE_BYTES)
