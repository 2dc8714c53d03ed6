"""Power loss with writes in another order: only the file that was changed last has lost what was not forced.

A cache writes back what it likes first, so what was written before may be newer on disk. Healed as lose-power.
"""

from sinkproof.chaos.faults.fault_kind import power_loss

LOSE_NEWEST = power_loss(
    "lose-newest",
    "power loss with reordered writes: all is on disk, but for unforced bytes of the file that was changed last",
    hook="lose_newest",
)
