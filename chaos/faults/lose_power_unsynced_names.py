"""Power loss without directory sync: bytes were on disk already, but names that were not forced are missing.

Renamed files have their old names, new files have none. Healed as lose-power.
"""

from sinkproof.chaos.faults.fault_kind import power_loss

LOSE_NAMES = power_loss(
    "lose-names",
    "power loss without directory sync: bytes are on disk, but names that were not forced are gone",
    hook="lose_names",
)
