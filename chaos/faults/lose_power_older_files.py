"""Power loss with writes in another order: only the file that was changed last has kept what was not forced.

A marker may be on disk before the rows that it speaks of. Healed as lose-power.
"""

from sinkproof.chaos.faults.fault_kind import power_loss

LOSE_OLDER = power_loss(
    "lose-older",
    "power loss with reordered writes: of unforced bytes, only those of the file that was changed last are on disk",
    hook="lose_older",
)
