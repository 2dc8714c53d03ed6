"""Power loss: every process dies, and the target keeps only bytes and names that were forced to disk (fsync).

Healed by a new job that restores the last complete checkpoint, if all that was acknowledged had been forced.
"""

from sinkproof.chaos.faults.fault_kind import power_loss

LOSE_POWER = power_loss(
    "lose-power",
    "power loss: every process dies, and what was not forced to disk is gone",
    hook="lose_power",
)
