"""Sinks that handle SIGTERM. Right: TidiesAndExits, NotesTheEnd, RaisesWhenAsked."""

from __future__ import annotations

import signal
import sys
from typing import Any, NoReturn

from renamed_files import Links, OutFolder

from sinkproof import Batch, Context


class Asked(Links):
    """Its handler may be called wherever it is."""

    def open(self, context: Context) -> None:
        super().open(context)
        signal.signal(signal.SIGTERM, self.asked_to_end)

    def asked_to_end(self, *_: object) -> None:
        """What it does then."""

    def publish_all(self) -> None:
        for name in list(self.pending.values()):
            self.publish(name)


class Exits(Asked):
    """The attempt's own files; what was promised stays."""

    def asked_to_end(self, *_: object) -> NoReturn:
        self.rows = []
        sys.exit(0)


class TidiesAndExits(OutFolder):
    """Right."""

    make: Any = Exits


class Hurries(Asked):
    def asked_to_end(self, *_: object) -> None:
        self.publish_all()
        sys.exit(0)


class PublishesWhatIsPending(OutFolder):
    """Wrong: what is staged becomes visible when the process is asked to end, decided or not."""

    make: Any = Hurries


class TakesItForTheEnd(Links):
    def open(self, context: Context) -> None:
        super().open(context)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(self.notify_complete(sys.maxsize)))


class AllIsCompleteInTheEnd(OutFolder):
    """Wrong: the same, by lines that run without SIGTERM, too."""

    make: Any = TakesItForTheEnd


class Notes(Asked):
    """It only notes the request, and goes on."""

    is_asked = False

    def asked_to_end(self, *_: object) -> None:
        self.is_asked = True

    def snapshot(self, checkpoint_id: int) -> bytes:
        state = super().snapshot(checkpoint_id)
        if self.is_asked:
            self.last_chance()
        return state

    def last_chance(self) -> None:
        """Before the end."""


class NotesTheEnd(OutFolder):
    """Right."""

    make: Any = Notes


class PublishesEarlyOnceAsked(Notes):
    def last_chance(self) -> None:
        self.publish_all()


class NotesAndPublishesEarly(OutFolder):
    """Wrong: once it was asked to end, it publishes with its next vote."""

    make: Any = PublishesEarlyOnceAsked


class Interrupted(Exception):
    pass


class Raises(Asked):
    def asked_to_end(self, *_: object) -> NoReturn:
        raise Interrupted

    def write(self, batch: Batch) -> None:
        try:
            super().write(batch)
        finally:
            self.written = len(self.rows)


class RaisesWhenAsked(OutFolder):
    """Right: its handler raises."""

    make: Any = Raises
