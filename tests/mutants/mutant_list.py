"""The mutants: one line each, with what it breaks. `subjects`: the pairs whose certification must notice it."""

from __future__ import annotations

from dataclasses import dataclass, replace

TWO_PHASE = ("memory/two-phase",)
EVERY_STRATEGY = ("memory/two-phase", "memory/write-ahead-upsert", "memory/masked", "memory/idempotent")


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    subjects: tuple[str, ...] = TWO_PHASE
    shell: str = "simulated"


def mutant(name: str, file: str, old: str, *, new: str, subjects: tuple[str, ...] = TWO_PHASE) -> Mutant:
    return Mutant(name, file, old, new, subjects)


COORDINATOR = "reference_engine/coordinator.py"
SUBTASK = "reference_engine/subtask.py"
ALIGNMENT = "reference_engine/alignment.py"
ACTING = "reference_engine/shells/acting.py"
SIMULATED = "reference_engine/shells/simulated.py"
RESTORE = "reference_engine/restore.py"
STORAGE = "reference_engine/checkpoint_storage.py"
TWO_PHASE_FILE = "sink_adapters/two_phase.py"
WRITE_AHEAD_FILE = "sink_adapters/write_ahead.py"
MASKED_FILE = "sink_adapters/masked.py"
UPSERT = ("memory/write-ahead-upsert",)
MASKED = ("memory/masked",)

ENGINE = (
    mutant(
        "complete with a vote missing",
        COORDINATOR,
        "if len(pending.states) < len(self.plan.subtasks):",
        new="if len(pending.states) < len(self.plan.subtasks) - 1:",
    ),
    mutant(
        "told before the decision is durable",
        ACTING,
        "        shell.storage.decide(record)",
        new="        pass",
    ),
    mutant(
        "a declined vote is counted as a vote",
        ACTING,
        'kind, shell.fate = "declined" if shell.fate == "declined" else "acknowledged", ""',
        new='kind, shell.fate = "acknowledged", ""',
        subjects=EVERY_STRATEGY,
    ),
    mutant(
        "checkpoint ids start again after a restart",
        COORDINATOR,
        "self.checkpoint_id_next = max(record.checkpoint_id if record else 0, checkpoint_id_last) + 1",
        new="self.checkpoint_id_next = 1",
    ),
    mutant(
        "nobody is told that a checkpoint is complete",
        COORDINATOR,
        'effects += [("tell", subtask.id, "complete", checkpoint_id, final) for subtask in self._listeners()]',
        new="pass",
    ),
    mutant(
        "the job ends before every sink has settled",
        COORDINATOR,
        "if not self.closed.issuperset(self.sinks):",
        new="if not self.closed:",
    ),
    mutant(
        "a failure restarts nobody",
        COORDINATOR,
        'return [("give_up", why)] if delay is None else [("restart", delay)]',
        new='return [("give_up", why)]',
    ),
    mutant(
        "a restart forgets the last checkpoint",
        SIMULATED,
        "record=self.storage.latest()",
        new="record=None",
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
)

STRATEGIES = (
    mutant(
        "two-phase: no re-commit on restore",
        TWO_PHASE_FILE,
        "        self._commit_covered()\n        self._abort_lingering()",
        new="        self._abort_lingering()",
    ),
    mutant(
        "two-phase: handles are not restored",
        TWO_PHASE_FILE,
        'self._pending += [_pending_from(entry) for entry in content["pending"]]',
        new='_ = [_pending_from(entry) for entry in content["pending"]]',
    ),
    mutant(
        "two-phase: newer transactions are not aborted",
        TWO_PHASE_FILE,
        "        self._commit_covered()\n        self._abort_lingering()",
        new="        self._commit_covered()",
    ),
    mutant(
        "two-phase: aborts before it commits",
        TWO_PHASE_FILE,
        "        self._commit_covered()\n        self._abort_lingering()",
        new="        self._pending, kept = [], self._pending\n        self._abort_lingering()\n"
        "        self._pending = kept\n        self._commit_covered()",
    ),
    mutant(
        "two-phase: no fence",
        TWO_PHASE_FILE,
        "self.target.fence(self.owner, context.generation)",
        new="pass",
        subjects=("memory/two-phase", "files/two-phase"),
    ),
    mutant(
        "two-phase: commits what is not complete",
        TWO_PHASE_FILE,
        "while pending and pending[0][0] <= covered:",
        new="while pending:",
    ),
    mutant(
        "two-phase: commits only the notified checkpoint",
        TWO_PHASE_FILE,
        "while pending and pending[0][0] <= covered:",
        new="while pending and pending[0][0] == covered:",
    ),
    mutant(
        "two-phase: pending handles are left out of the snapshot",
        TWO_PHASE_FILE,
        'fragments = ",".join([entry[2] for entry in self._pending])',
        new='fragments = ",".join([entry[2] for entry in self._pending[-1:]])',
    ),
    mutant(
        "two-phase: rows go on into a pre-committed transaction",
        TWO_PHASE_FILE,
        "            self._current = None\n            began",
        new="            began",
    ),
    mutant(
        "two-phase: committed handles stay pending",
        TWO_PHASE_FILE,
        "            del pending[0]\n        return ()",
        new="            del pending[0]\n            return ()\n        return ()",
    ),
    mutant(
        "write-ahead: recorded before it is sent",
        WRITE_AHEAD_FILE,
        "        outcome = self.target.publish(part, rows)",
        new="        self.committer.record(part)\n        outcome = self.target.publish(part, rows)",
        subjects=UPSERT,
    ),
    mutant(
        "write-ahead: sends what is not complete",
        WRITE_AHEAD_FILE,
        "while pending and pending[0][0] <= covered:",
        new="while pending:",
        subjects=("memory/write-ahead",),
    ),
    mutant(
        "write-ahead: nothing is sent on restore",
        WRITE_AHEAD_FILE,
        "            self._pending += _restored(state)",
        new="            _restored(state)",
        subjects=UPSERT,
    ),
    mutant(
        "write-ahead: rows of older checkpoints are left out of the snapshot",
        WRITE_AHEAD_FILE,
        'fragments = ",".join([entry[3] for entry in self._pending])',
        new='fragments = ",".join([entry[3] for entry in self._pending[-1:]])',
        subjects=UPSERT,
    ),
    mutant(
        "masked: reveals what is not complete",
        MASKED_FILE,
        "if not hidden or hidden[0] > covered:",
        new="covered = self._last\n        if not hidden:",
        subjects=MASKED,
    ),
    mutant(
        "masked: nothing is revealed on restore",
        MASKED_FILE,
        "            self._reveal_restored(generation, self._covered)",
        new="            pass",
        subjects=MASKED,
    ),
    mutant(
        "masked: nothing is collected",
        MASKED_FILE,
        "        self.target.collect(self.owner, context.generation)",
        new="        pass",
        subjects=MASKED,
    ),
)

FILES_FILE = "sink_adapters/files.py"
FILES = ("files/two-phase",)
TARGETS = (
    mutant(
        "files: earlier attempts' folders are not taken away",
        FILES_FILE,
        "                if earlier < generation:",
        new="                if False:",
        subjects=FILES,
    ),
    mutant(
        "files: what was taken away is not looked for",
        FILES_FILE,
        'return [*self._fenced.get(attempt, ()), f"staging/{attempt}"]',
        new='return [f"staging/{attempt}"]',
        subjects=FILES,
    ),
    mutant(
        "files: what was taken away is not removed",
        FILES_FILE,
        "return sorted(folder for folders in self._fenced.values() for folder in folders)",
        new="return []",
        subjects=FILES,
    ),
    mutant(
        "files: the first part speaks for all",
        FILES_FILE,
        "for number, bucket in enumerate(buckets, start=1)}",
        new="for number, bucket in enumerate(buckets[:1], start=1)}",
        subjects=FILES,
    ),
    mutant(
        "files: a part is not rolled before it is acknowledged",
        FILES_FILE,
        "        for bucket in sorted(self._open):\n            self._roll(transaction, bucket)\n        try:",
        new="        try:",
        subjects=FILES,
    ),
)

TRIED_ON_SPARK = ("told before the decision is durable", "two-phase: no re-commit on restore", "two-phase: no fence")
SPARK = tuple(
    replace(each, name=f"on Spark: {each.name}", subjects=("files/two-phase",), shell="spark")
    for each in ENGINE + STRATEGIES
    if each.name in TRIED_ON_SPARK
)

MUTANTS = ENGINE + STRATEGIES + TARGETS + SPARK
