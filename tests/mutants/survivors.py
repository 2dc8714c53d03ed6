"""Mutants of by_operator.py that a certification does not notice, by the line that they change, and why it cannot.

Changes of the coordinator that no sink observes are found by its rules (harness/judging/coordinator_rules.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

AN_ENUM: Final = "an enum's member equals itself and nothing else: `is` and `==` are the same"
ONE_OR_NONE: Final = "there is one, or none"
DELAYED: Final = "equal but for time: what is covered is shown with the newest pending one, or by the next attempt"
UNIQUE: Final = "equal: a name has only to be new and greater than those before it"
PEACE: Final = (
    "only for a target that cannot list what lingers, and only when an attempt ends in peace: what is left then is "
    "what a death leaves, which such a target has to live with anyway"
)
GREETING: Final = (
    "no helper is notified that the attempt is over; a death notifies none either, so no right sink needs it"
)
ONE_OBJECT: Final = "small numbers are one object"
NEVER_MORE: Final = "there are never more, and small numbers are one object"
WORDS: Final = "the words of an error, which no oracle judges"
DELETED: Final = "no job that is certified deletes its checkpoints when it is cancelled"
ONCE: Final = "one more event that has no receiver or no effect, because the coordinator has ended by then"

SURVIVORS: Final[Mapping[str, Mapping[str, str]]] = {
    "sink_adapters/strategies/two_phase.py": {
        'if self._current is not None and not hasattr(self.target, "lingering"):': PEACE,
        "transaction = Transaction.of(self.owner, self.context.generation, self._last + 1)": UNIQUE,
        "while pending and pending[0][0] <= covered:": DELAYED,
        "return _pending(checkpoint_id, decode_value(kind, value), began[0] if began else None)": ONE_OR_NONE,
        "if outcome is not COMMITTED and outcome is not None and self._in_doubt(first, outcome):": AN_ENUM,
        "if outcome is CommitOutcome.LOST:": AN_ENUM,
        "return outcome is CommitOutcome.RETRY": AN_ENUM,
    },
    "sink_adapters/strategies/write_ahead.py": {
        "while pending and pending[0][0] <= covered:": DELAYED,
        "if outcome is False or outcome is CommitOutcome.RETRY:": AN_ENUM,
        "for helper in self._helpers():": GREETING,
    },
    "sink_adapters/strategies/masked.py": {
        "if self._reveal(generation, checkpoint_id) is CommitOutcome.RETRY:": AN_ENUM,
        "if self._reveal(self.generation, self._covered) is CommitOutcome.RETRY:": AN_ENUM,
        "self._staged_ever = False": "a marker more, of an attempt that has staged nothing: it reveals nothing",
    },
    "reference_engine/checkpointing/coordinator.py": {
        "delete = self.configuration.externalized_checkpoint_cleanup is Cleanup.DELETE_ON_CANCELLATION": AN_ENUM,
        "checkpoint_id for checkpoint_id, one in self.pending.items() if one.phase is CheckpointPhase.TRIGGERED": (
            AN_ENUM
        ),
        "discarded = [*undecided, *([0] if delete else [])]  # 0: the retained ones": DELETED,
        "late = [one for one, since in doubtful.items() if now - since >= self.configuration.settle_deadline]": (
            "the timer rings at that very moment, and each checkpoint in doubt has one"
        ),
        "checkpoint_id_last: int = 0,": "every shell says which one it was",
        "self.checkpoint_id_next = max(record.checkpoint_id if record else 0, checkpoint_id_last) + 1": (
            "-1 is as far below the last one as 0 is"
        ),
        "if len(self.pending) >= self.configuration.concurrent:": NEVER_MORE,
        "self.trigger_due = False": "it is written before it is read: a checkpoint has to begin before one can end",
        "if len(self.ended) == len(self.sources):": NEVER_MORE,
        "if len(pending.states) < len(self.plan.subtasks):": NEVER_MORE,
        "if checkpoint_id == self.checkpoint_id_final:": ONE_OBJECT,
        "final = checkpoint_id == self.checkpoint_id_final": ONE_OBJECT,
        "if pending is None or pending.phase is not CheckpointPhase.TRIGGERED:": AN_ENUM,
        'assert counted == vote[1], f"{vote[0]} has voted twice for {checkpoint_id}, for different states"': WORDS,
        "self.over = True": ONCE,
        "*,": "not a mutation of the language: a star that is none between numbers",
    },
}
