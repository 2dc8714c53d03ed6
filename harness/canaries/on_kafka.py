"""The canaries on a real broker: each under the schedules that show its sin, the control under all that it can run."""

from __future__ import annotations

from typing import Final

from sinkproof.canaries import kafka
from sinkproof.canaries.on_services import ServiceCanary, ServiceTrial

DECIDED: Final = "checkpoint.persist.after#1=kill-job"
TIME_PASSES: Final = (f"{DECIDED} generation.before#2=maintain",)
AGAIN: Final = tuple(f"job=sparse sink[0].{point}#2=kill-job" for point in ("pre_commit.after", "snapshot.after"))
# A zombie has to write to a partition that its transaction did not contain before.
ZOMBIES: Final = tuple(f"sink[{subtask}].write.before#{time}=stop" for time in (5, 4, 6, 2) for subtask in (0, 1))
STANDS_STILL: Final = tuple(f"sink[0].begin.after#{time}=service-pause" for time in (1, 2))
CANARIES: Final = (
    ServiceCanary("uses producers again", kafka.UsesProducersAgain, "R8", "O2 O3", AGAIN),
    ServiceCanary(
        "swallows commit errors", kafka.SwallowsCommitErrors, "R6", "O1", ("broker[1].end_txn.request#1=drop",)
    ),
    ServiceCanary("ignores the timeout", kafka.IgnoresTheTimeout, "R9", "O1", TIME_PASSES),
    ServiceCanary("close() aborts", kafka.AbortsWhenClosed, "R15", "O1", ("checkpoint.persist.after#1=kill", DECIDED)),
    ServiceCanary("sweeps under the old epoch", kafka.SweepsUnderTheOldEpoch, "R10", "O1 O2 O7 O9", ZOMBIES),
    ServiceCanary("sends again", kafka.SendsAgainWhenNotAnswered, "R7", "O2", ("broker[1].end_txn.reply#1=drop",)),
    ServiceCanary("sweeps under a common prefix", kafka.SweepsUnderACommonPrefix, "R2", "O1", (DECIDED,)),
    ServiceCanary("takes flush for a vote", kafka.TakesFlushForAVote, "R4", "O1", STANDS_STILL),
    ServiceCanary(
        "leaves transactions open", kafka.LeavesTransactionsOpen, "R11", "O1 O6 O7", ("sink[0].write.after#1=kill",)
    ),
)
CONTROLS: Final = (("two-phase on Kafka", kafka.OnKafka),)
ON_KAFKA: Final = ServiceTrial("kafka", CANARIES, CONTROLS, not_for_controls=TIME_PASSES)
