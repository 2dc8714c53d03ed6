"""Mutants of the core and of the shells that carry out its effects."""

from __future__ import annotations

from mutant import mutant

COORDINATOR = "reference_engine/checkpointing/coordinator.py"
SUBTASK = "reference_engine/dataflow/subtask.py"
ALIGNMENT = "reference_engine/dataflow/barrier_alignment.py"
ACTING = "reference_engine/shells/carry_out_effects.py"
SIMULATED = "reference_engine/shells/simulated/simulation.py"
RESTORE = "reference_engine/checkpointing/restore_and_rescale.py"
STORAGE = "reference_engine/checkpointing/memory_storage.py"

ENGINE = (
    mutant(
        "complete with a vote missing",
        COORDINATOR,
        "if len(pending.states) < len(self.plan.subtasks):",
        new="if len(pending.states) < len(self.plan.subtasks) - 1:",
    ),
    mutant(
        "completion is notified before the decision is durable",
        ACTING,
        "        shell.storage.decide(record)",
        new="        pass",
    ),
    mutant(
        "a declined vote is counted as a vote",
        ACTING,
        '"declined" if fault == "declined" else "acknowledged"',
        new='"acknowledged"',
    ),
    mutant(
        "checkpoint ids start again after a restart",
        COORDINATOR,
        "self.checkpoint_id_next = max(record.checkpoint_id if record else 0, checkpoint_id_last) + 1",
        new="self.checkpoint_id_next = 1",
    ),
    mutant(
        "no subtask is notified of a complete checkpoint",
        COORDINATOR,
        'effects += [("send", sink, "complete", checkpoint_id, final) for sink in self.sinks]',
        new="pass",
    ),
    mutant(
        "the job ends before every sink has settled",
        COORDINATOR,
        "if not self.closed.issuperset(self.sinks):",
        new="if not self.closed:",
    ),
    mutant(
        "a failure restarts no subtask",
        COORDINATOR,
        'return [("give_up", why)] if delay is None else [("restart", delay)]',
        new='return [("give_up", why)]',
    ),
    mutant(
        "a restart forgets the last checkpoint",
        SIMULATED,
        "            record=record,\n            checkpoint_id_last",
        new="            record=None,\n            checkpoint_id_last",
    ),
    mutant("generations do not grow", STORAGE, "self.generation += 1", new="self.generation += 0"),
    mutant(
        "an older decision replaces a newer one",
        STORAGE,
        "if self.record is None or record.checkpoint_id > self.record.checkpoint_id:",
        new="if self.record is None:",
    ),
    mutant(
        "blocked channels are not held back",
        SUBTASK,
        '        if channel in self.alignment.blocked:\n            self.alignment.hold(("rows", channel, batch))',
        new='        if False:\n            self.alignment.hold(("rows", channel, batch))',
    ),
    mutant(
        "a snapshot at the first barrier",
        ALIGNMENT,
        "if len(self.blocked) < self.channels:",
        new="if len(self.blocked) < 1:",
    ),
    mutant(
        "held rows are dropped after the snapshot",
        ALIGNMENT,
        "        released, self.held = self.held, []\n        self.blocked.clear()\n        return released",
        new="        released, self.held = [], []\n        self.blocked.clear()\n        return released",
    ),
    mutant(
        "the source's offset is taken after the next batch",
        SUBTASK,
        'states["source"] = self.reader.capture()',
        new='self.reader.next(); states["source"] = self.reader.capture()',
    ),
    mutant(
        "sources restart where the input begins",
        RESTORE,
        "subtask.reader.restore(restored.offsets)",
        new="subtask.reader.restore(())",
    ),
    mutant(
        "sink states go to the wrong subtask",
        RESTORE,
        'if "sink" in states and old % subtask.parallelism == subtask.index',
        new='if "sink" in states and old % subtask.parallelism != subtask.index',
        subjects=("memory/two-phase", "files/two-phase"),
    ),
    mutant(
        "sink states are dropped on restore",
        RESTORE,
        'if "sink" in states and old % subtask.parallelism == subtask.index',
        new="if False",
    ),
    mutant(
        "the wrong barrier goes on",
        SUBTASK,
        '[("send", target, "barrier", checkpoint_id) for target in self.targets]',
        new='[("send", target, "barrier", checkpoint_id + 1) for target in self.targets]',
    ),
    mutant(
        "the barrier goes to one channel only",
        SUBTASK,
        '[("send", target, "barrier", checkpoint_id) for target in self.targets]',
        new='[("send", target, "barrier", checkpoint_id) for target in self.targets[:1]]',
    ),
    mutant(
        "a final checkpoint that failed is not tried again",
        COORDINATOR,
        "            self.checkpoint_id_final = 0\n            return effects + self._trigger_if_allowed(now)",
        new="            return effects",
    ),
    mutant(
        "a complete checkpoint stays pending",
        COORDINATOR,
        "        del self.pending[checkpoint_id]\n",
        new="",
    ),
    mutant(
        "no subtask is notified of a restored final checkpoint",
        COORDINATOR,
        'return [("send", subtask, "complete", restored.checkpoint_id, True)]',
        new="return []",
    ),
    mutant(
        "an aborted checkpoint is never announced as such",
        COORDINATOR,
        '*(("send", subtask.id, "aborted", checkpoint_id, None) for subtask in self.plan.subtasks),',
        new="",
    ),
    mutant(
        "a source that waits at a cut is never woken",
        SUBTASK,
        '            effects.append(("timer", None, "emit"))\n        return effects\n\n    def barrier',
        new="            pass\n        return effects\n\n    def barrier",
    ),
    mutant(
        "a barrier on a blocked channel is dropped",
        SUBTASK,
        'self.alignment.hold(("barrier", channel, checkpoint_id))',
        new="pass",
    ),
    mutant(
        "the final checkpoint does not close",
        SUBTASK,
        "            self.closing = checkpoint_id",
        new="            pass",
    ),
    mutant("an aligned channel is not blocked", ALIGNMENT, "self.blocked.add(channel)", new="pass"),
    mutant(
        "channels stay blocked after the snapshot",
        ALIGNMENT,
        "        released, self.held = self.held, []\n        self.blocked.clear()",
        new="        released, self.held = self.held, []",
    ),
    mutant(
        "only the first source's offsets are restored",
        RESTORE,
        'for _, states in old_states if "source" in states for pair',
        new='for _, states in old_states[:1] if "source" in states for pair',
    ),
    mutant(
        "the sink's bytes are not kept",
        ACTING,
        'states["sink"] = bytes(state)',
        new='states["sink"] = b""',
    ),
    mutant(
        "the sink does not receive what was restored",
        ACTING,
        "        restored=restored.sinks,",
        new="        restored=(),",
    ),
    mutant(
        "the sink does not receive which checkpoint was restored",
        ACTING,
        "        checkpoint_id_restored=restored.checkpoint_id,",
        new="        checkpoint_id_restored=None,",
    ),
    mutant("every attempt has the same generation", ACTING, "        generation=key[1],", new="        generation=1,"),
)
