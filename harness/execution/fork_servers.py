"""The two fork servers of a runner, from which its attempts are forked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Final

from sinkproof.chaos.processes.spawn import ForkServer, ForkServerError
from sinkproof.execution.make_sink import IMPORTER

NOTING: Final = ("sinkproof.chaos.sqlite_points:note_before_forks",)
HASH_SEEDS: Final = (1, 2)  # a restarted process has another hash seed, unless the user has set PYTHONHASHSEED


class Servers:
    """Odd generations are forked from the first server, even ones from the second, which starts when it is needed."""

    def __init__(self, *, preload: Sequence[str], warm: Sequence[tuple[str, ...]]) -> None:
        self.preload, self.warm = preload, tuple(warm)
        self._other: ForkServer | None = None
        self.orphans_seconds = 0.0
        self.first = self._start(HASH_SEEDS[0])

    def _start(self, hash_seed: int) -> ForkServer:
        return ForkServer(preload=self.preload, warm=(*self.warm, NOTING), hash_seed=hash_seed)

    def other(self) -> ForkServer:
        self._other = self._other or self._start(HASH_SEEDS[1])
        self._other.let_orphans_live(self.orphans_seconds)
        return self._other

    def let_orphans_live(self, seconds: float) -> None:
        self.orphans_seconds = seconds
        self.first.let_orphans_live(seconds)

    def import_too(self, modules: Sequence[str]) -> None:
        """Starts anew, with these modules imported as well, unless that fails."""
        former, warm = self.first, self.warm
        self.warm = (*warm, (IMPORTER, *modules))
        try:
            self.first = self._start(HASH_SEEDS[0])
        except ForkServerError:
            self.warm = warm
            return
        former.close()
        if self._other is not None:
            self._other.close()
            self._other = None

    def close(self) -> None:
        self.first.close()
        if self._other is not None:
            self._other.close()


@contextmanager
def fork_servers(*, preload: Sequence[str], warm: Sequence[tuple[str, ...]]) -> Iterator[Servers]:
    with closing(Servers(preload=preload, warm=warm)) as servers:
        yield servers
