"""The budget that suffices, as the reason of UNKNOWN names it."""

from __future__ import annotations

import re
from typing import Final

NAMED: Final = re.compile(r"--budget: (\d+)s (?:should|may) suffice")


def named_budget(why: str) -> float | None:
    """Seconds; None where no budget is named."""
    found = NAMED.search(why)
    return float(found[1]) if found else None
