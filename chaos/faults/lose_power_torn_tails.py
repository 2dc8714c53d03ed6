"""Power loss in the middle of a write-back: names were on disk already, and of the bytes that were not forced a part.

Of each file the first half of what differs has reached the disk. Healed as lose-power.
"""

from sinkproof.chaos.faults.fault_kind import power_loss

LOSE_TAILS = power_loss(
    "lose-tails",
    "power loss with torn writes: names are on disk, and of the bytes that were not forced the first half",
    hook="lose_tails",
)
