"""Mutants of the strategies, and of the targets they write to."""

from __future__ import annotations

from mutant import mutant

TWO_PHASE_FILE = "sink_adapters/strategies/two_phase.py"
WRITE_AHEAD_FILE = "sink_adapters/strategies/write_ahead.py"
MASKED_FILE = "sink_adapters/strategies/masked.py"
IDEMPOTENT_FILE = "sink_adapters/strategies/idempotent.py"
STORE_FILE = "sink_adapters/memory/memory_store.py"
UPSERT = ("memory/write-ahead-upsert",)
MASKED = ("memory/masked",)
IDEMPOTENT = ("memory/idempotent",)

STRATEGIES = (
    mutant(
        "two-phase: no re-commit on restore",
        TWO_PHASE_FILE,
        "        in_doubt = self._commit_covered()\n",
        new="        in_doubt: list[int] = []\n",
    ),
    mutant(
        "two-phase: handles are not restored",
        TWO_PHASE_FILE,
        "self._pending += decode_pending(",
        new="decode_pending(",
    ),
    mutant(
        "two-phase: newer transactions are not aborted",
        TWO_PHASE_FILE,
        "        in_doubt = self._commit_covered()\n        self._abort_lingering()",
        new="        in_doubt = self._commit_covered()",
    ),
    mutant(
        "two-phase: aborts before it commits",
        TWO_PHASE_FILE,
        "        in_doubt = self._commit_covered()\n        self._abort_lingering()",
        new="        self._pending, kept = [], self._pending\n        self._abort_lingering()\n"
        "        self._pending = kept\n        in_doubt = self._commit_covered()",
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
        "            self._current = None\n            self._pending.append",
        new="            self._pending.append",
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
        "            self._pending += decode_pending(",
        new="            decode_pending(",
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
        "covered = bisect_right(hidden, self._covered)",
        new="self._covered = self._last\n        covered = len(hidden)",
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
    mutant(
        "two-phase: what was restored is not covered",
        TWO_PHASE_FILE,
        "self._covered = self._last = context.checkpoint_id_covered",
        new="self._covered, self._last = 0, context.checkpoint_id_covered",
    ),
    mutant(
        "two-phase: forgets the newest instead of the oldest",
        TWO_PHASE_FILE,
        "            del pending[0]\n        return ()",
        new="            pending.pop()\n        return ()",
    ),
    mutant(
        "two-phase: names of transactions come again",
        TWO_PHASE_FILE,
        "        self._last = checkpoint_id\n",
        new="",
    ),
    mutant(
        "two-phase: an abort drops what is pending",
        TWO_PHASE_FILE,
        '        """Its transaction stays pending: the next complete checkpoint covers it."""',
        new="        self._pending = [entry for entry in self._pending if entry[0] != checkpoint_id]",
    ),
    mutant(
        "write-ahead: forgets the newest instead of the oldest",
        WRITE_AHEAD_FILE,
        "            del pending[0]\n        return ()",
        new="            pending.pop()\n        return ()",
        subjects=UPSERT,
    ),
    mutant(
        "write-ahead: what was restored is not covered",
        WRITE_AHEAD_FILE,
        "self._covered = context.checkpoint_id_covered",
        new="self._covered = 0",
        subjects=UPSERT,
    ),
    mutant(
        "write-ahead: a part is named after the next checkpoint",
        WRITE_AHEAD_FILE,
        "part = CheckpointPart.of(self.owner, checkpoint_id)",
        new="part = CheckpointPart.of(self.owner, checkpoint_id + 1)",
        subjects=UPSERT,
    ),
    mutant(
        "write-ahead: what was taken for sent is not sent",
        WRITE_AHEAD_FILE,
        "if not self.committer.is_committed(part) and not self._send(part, rows):",
        new="if self.committer.is_committed(part) and not self._send(part, rows):",
        subjects=UPSERT,
    ),
    mutant(
        "write-ahead: an abort drops what is pending",
        WRITE_AHEAD_FILE,
        '        """Its rows stay pending under its own id: the next complete checkpoint covers them."""',
        new="        self._pending = [entry for entry in self._pending if entry[0] != checkpoint_id]",
        subjects=UPSERT,
    ),
    mutant(
        "masked: reveals one checkpoint too many",
        MASKED_FILE,
        "if self._reveal(self.generation, self._covered) is CommitOutcome.RETRY:",
        new="if self._reveal(self.generation, self._covered + 1) is CommitOutcome.RETRY:",
        subjects=MASKED,
    ),
    mutant(
        "masked: a segment goes on after its snapshot",
        MASKED_FILE,
        "            self._segment = None\n            self._hidden",
        new="            self._hidden",
        subjects=MASKED,
    ),
    mutant(
        "masked: the state does not name the owner of the segments",
        MASKED_FILE,
        "return self._state if self._staged_ever else EMPTY",
        new="return EMPTY",
        subjects=MASKED,
    ),
    mutant(
        "masked: collects before it reveals",
        MASKED_FILE,
        'call_if_there(self.target, "attach", context)',
        new='call_if_there(self.target, "attach", context); self.target.collect(self.owner, context.generation)',
        subjects=MASKED,
    ),
    mutant(
        "masked: reveals under the generation of the attempt",
        MASKED_FILE,
        "            self._reveal_restored(generation, self._covered)",
        new="            self._reveal_restored(self.generation, self._covered)",
        subjects=MASKED,
    ),
    mutant(
        "idempotent: keys without the split",
        IDEMPOTENT_FILE,
        'return f"{row[0]}-{row[1]}"',
        new='return f"{row[1]}"',
        subjects=IDEMPOTENT,
    ),
    mutant(
        "idempotent: keys of the attempt's own",
        IDEMPOTENT_FILE,
        "entries = [(key(row), row) for row in batch.rows]",
        new='entries = [(f"{key(row)}-{id(self)}", row) for row in batch.rows]',
        subjects=IDEMPOTENT,
    ),
    mutant(
        "idempotent: one row of a batch is left out",
        IDEMPOTENT_FILE,
        "for row in batch.rows]",
        new="for row in batch.rows[1:]]",
        subjects=IDEMPOTENT,
    ),
)

FILES_FILE = "sink_adapters/files/file_transactions.py"
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
    mutant(
        "memory: a commit that was done before is lost",
        STORE_FILE,
        "return CommitOutcome.ALREADY if name in self.committed else CommitOutcome.LOST",
        new="return CommitOutcome.LOST",
    ),
)
