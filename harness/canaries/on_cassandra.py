"""The canaries on a real Cassandra: each under the schedules that show its sin, the controls under all."""

from __future__ import annotations

from typing import Final

from sinkproof.canaries import cassandra
from sinkproof.canaries.on_services import ServiceCanary, ServiceTrial

LATE: Final = ("no-fault", "sink[0].commit.before#1=stop", "sink[1].commit.before#1=stop")
# The second commit: the first one waits for its statement to be prepared, which needs an answer.
STANDS_STILL: Final = ("sink[0].commit.before#2=service-pause", "sink[1].commit.before#2=service-pause")
COUNTING_STILL: Final = ("sink[0].publish.before#2=service-pause", "sink[1].publish.before#2=service-pause")
KILLED: Final = ("checkpoint.persist.after#3=service-kill",)
CANARIES: Final = (
    ServiceCanary("trusts a SERIAL read", cassandra.TrustsASerialRead, "R7", "O2 O9", LATE),
    ServiceCanary("sends under a new name", cassandra.ResendsUnderANewName, "R7", "O2", STANDS_STILL),
    ServiceCanary("cleans up on timeout", cassandra.CleansUpOnTimeout, "R7", "O1", STANDS_STILL),
    ServiceCanary("chooses before rows", cassandra.ChoosesBeforeRows, "R1", "O1", ("sink[0].commit.after#1=kill",)),
    ServiceCanary("plain writes among conditional ones", cassandra.MixesPlainWrites, "R18", "O1", ("no-fault",)),
    ServiceCanary("retries an increment", cassandra.RetriesAnIncrement, "R18", "O2", COUNTING_STILL),
    ServiceCanary("time is the checkpoint", cassandra.TimeIsTheCheckpoint, "R18", "O1 O2", ("job=sparse no-fault",)),
    ServiceCanary("marker per subtask", cassandra.MarkerPerSubtask, "R13", "O4", ("no-fault",)),
    ServiceCanary("log synced periodically", cassandra.AcknowledgesBeforeItIsOnDisk, "R16", "O1", KILLED),
)
CONTROLS: Final = (
    ("chooses by a conditional insert", cassandra.ChoosingContract),
    ("counts at most once", cassandra.CountingContract),
    ("latest by offset", cassandra.LatestContract),
    ("one marker for all", cassandra.MaskedPartitionsContract),
)
ON_CASSANDRA: Final = ServiceTrial("cassandra", CANARIES, CONTROLS)
