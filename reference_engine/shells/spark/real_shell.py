"""What each process of the spark shell offers to carry_out_effects.py (its SubtaskShell): real time, message faults."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from sinkproof.chaos.clock import now
from sinkproof.reference_engine.shells.carry_out_effects import Key
from sinkproof.reference_engine.shells.held_back_notifications import Held
from sinkproof.reference_engine.shells.spark.process_fault_points import Points


class RealShell:
    points: Points
    held: Held = ()  # none, ever

    @property
    def now(self) -> float:
        """Milliseconds on the one clock that all processes of the host share."""
        return 1000 * now()

    @property
    def message_fault(self) -> str:
        return self.points.message_fault

    @message_fault.setter
    def message_fault(self, value: str) -> None:
        self.points.message_fault = value

    def clock_for(self, key: Key) -> Callable[[], float]:
        return lambda: self.now / 1000

    def random_for(self, key: Key) -> Random:
        return Random((key[1] << 16) + key[0])
