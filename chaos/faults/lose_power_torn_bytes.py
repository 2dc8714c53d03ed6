"""Power loss with torn writes: names were on disk already, so files exist, but with torn or empty contents.

A journaling file system leaves this after a rename without fsync. Healed as lose-power.
"""

from sinkproof.chaos.faults.fault_kind import power_loss

LOSE_BYTES = power_loss(
    "lose-bytes",
    "power loss with torn writes: names are on disk, but bytes that were not forced are gone or torn",
    hook="lose_bytes",
)
