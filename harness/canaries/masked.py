"""Masked sinks with one sin each; everything else is the control's (controls_on_database.py)."""

from __future__ import annotations

from sinkproof.canaries.controls_on_database import Masked, MaskedControl


class CollectsBeforeItReveals(MaskedControl):
    """R15: removes rows without a marker before it has set the marker of the restored checkpoint."""

    class make(Masked):  # noqa: N801
        def reveal_restored(self) -> None:
            self.collect()
            super().reveal_restored()


class NeverCollects(MaskedControl):
    """R15: removes nothing, so that each crash leaves invisible rows behind. (The opposite.)"""

    class make(Masked):  # noqa: N801
        def collect(self) -> None:
            """Skipped."""


class RevealsWhatIsStaged(MaskedControl):
    """R5: reveals up to the last staged checkpoint, which is not complete yet."""

    class make(Masked):  # noqa: N801
        def snapshot(self, checkpoint_id: int) -> bytes:
            self.last = checkpoint_id
            return super().snapshot(checkpoint_id)

        def notify_complete(self, checkpoint_id: int) -> None:
            super().notify_complete(self.last)


class MarkerUnderRetention(MaskedControl):
    """R9: the server's retention deletes the marker, and its rows are hidden again."""

    expires_after = 3600.0

    class make(Masked):  # noqa: N801
        def notify_complete(self, checkpoint_id: int) -> None:
            self.request("reveal_for_a_while", self.context.generation, checkpoint_id)
