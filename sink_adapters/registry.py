"""Lists the valid pairs of strategy and target: claims, expected grade, and the contract to certify each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from sinkproof.sink_adapters.files.file_contracts import FilesContract
from sinkproof.sink_adapters.memory.memory_contracts import MemoryContract
from sinkproof.sink_adapters.strategies.strategy_claims import ON_DISK, STRATEGIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """`contract()` makes a contract object with a store or disk of its own."""

    name: str
    sentence: str
    claims: tuple[str, ...]
    grade: str
    contract: Callable[[], Any] = field(compare=False)


def _pair(target: str, strategy: str, contract: Callable[[], Any]) -> Pair:
    promised = STRATEGIES[strategy.removesuffix("-parquet")]
    return Pair(
        name=f"{target}/{strategy}",
        sentence=promised.sentence,
        claims=promised.claims + (ON_DISK if target == "files" else ()),
        grade=promised.grade,
        contract=contract,
    )


PAIRS: Final[dict[str, Pair]] = {
    pair.name: pair
    for pair in (
        *(_pair("files", strategy, partial(FilesContract, strategy)) for strategy in STRATEGIES),
        *(
            _pair("files", f"{strategy}-parquet", partial(FilesContract, strategy, parquet=True))
            for strategy in ("two-phase", "masked")  # logs are written line by line, which Parquet cannot be
        ),
        *(_pair("memory", strategy, partial(MemoryContract, strategy)) for strategy in STRATEGIES),
    )
}
