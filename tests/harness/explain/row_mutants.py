"""One mutant for each row of the semantics: a changed line that `sinkproof explain` must show."""

from __future__ import annotations

from typing import Final, NamedTuple


class RowMutant(NamedTuple):
    """`old` occurs exactly once in `file`."""

    defect: str
    file: str
    old: str
    new: str


MUTANTS: Final[dict[str, RowMutant]] = {
    "S01": RowMutant(
        "the barrier overtakes the rows before it",
        "harness/explain/models/naive_snapshots.py",
        "operators.channels[0].append(BARRIER)",
        "operators.channels[0].appendleft(BARRIER)",
    ),
    "S02": RowMutant(
        "the barrier goes to one channel only",
        "reference_engine/dataflow/subtask.py",
        'effects: list[Effect] = [("send", target, "barrier", checkpoint_id) for target in self.targets]',
        'effects: list[Effect] = [("send", target, "barrier", checkpoint_id) for target in self.targets[:1]]',
    ),
    "S03": RowMutant(
        "a snapshot at the first barrier",
        "reference_engine/dataflow/barrier_alignment.py",
        "if len(self.blocked) < self.channels:",
        "if len(self.blocked) < 1:",
    ),
    "S04": RowMutant(
        "at least once, a snapshot at the first barrier",
        "reference_engine/dataflow/barrier_alignment.py",
        "if seen < self.channels:",
        "if seen < 1:",
    ),
    "S05": RowMutant(
        "rows in flight are not replayed",
        "reference_engine/checkpointing/restore_and_rescale.py",
        "waiting=() if record.checkpoint_id == ignored else _waiting(subtask, record),",
        "waiting=(),",
    ),
    "S06": RowMutant(
        "complete with a vote missing",
        "reference_engine/checkpointing/coordinator.py",
        "if len(pending.states) < len(self.plan.subtasks):",
        "if len(pending.states) < len(self.plan.subtasks) - 1:",
    ),
    "S07": RowMutant(
        "an abort leaves channels blocked",
        "reference_engine/dataflow/subtask.py",
        "return self.alignment.release() if self.alignment.cancel(checkpoint_id) else []",
        "return [] if self.alignment.cancel(checkpoint_id) else []",
    ),
    "S08": RowMutant(
        "digests are not checked",
        "reference_engine/checkpointing/checkpoint_encoding_and_digests.py",
        "if not _is_intact(data, reference.digest):",
        "if False:",
    ),
    "S09": RowMutant(
        "a declined vote is counted as a vote",
        "reference_engine/shells/carry_out_effects.py",
        '"declined" if fault == "declined" else "acknowledged"',
        '"acknowledged"',
    ),
    "S10": RowMutant(
        "the minimum pause is not kept",
        "reference_engine/checkpointing/coordinator.py",
        "if pause > 0:",
        "if pause > 10**9:",
    ),
    "S11": RowMutant(
        "one restart less than configured",
        "reference_engine/checkpointing/restart_strategy.py",
        "return self.delay if self.left >= 0 else None",
        "return self.delay if self.left > 0 else None",
    ),
    "S12": RowMutant(
        "a sink that missed the last notification stays unsettled",
        "reference_engine/checkpointing/coordinator.py",
        'return self._fail(now, "a sink was not settled after the final checkpoint")',
        "return []",
    ),
    "S13": RowMutant(
        "sources restart where the input begins",
        "reference_engine/checkpointing/restore_and_rescale.py",
        "subtask.reader.restore(restored.offsets)",
        "subtask.reader.restore(())",
    ),
    "S14": RowMutant(
        "a vertex cannot forbid to be chained to",
        "reference_engine/dataflow/job_graph.py",
        "                and home[-1].chain\n",
        "",
    ),
    "S15": RowMutant(
        "a batch costs no credit",
        "reference_engine/dataflow/flow_control.py",
        "                self.credits -= 1",
        "                self.credits -= 0",
    ),
    "S16": RowMutant(
        "a window is fired when it begins",
        "reference_engine/dataflow/windows.py",
        "if one[1] + self.size_ms - 1 <= self.watermark]",
        "if one[1] <= self.watermark]",
    ),
    "S17": RowMutant(
        "a source ignores the restored offsets",
        "reference_engine/dataflow/replayable_sources.py",
        "        self.offsets.update(offsets)",
        "        self.offsets.update(())",
    ),
    "S18": RowMutant(
        "no transaction is committed on restore",
        "sink_adapters/strategies/two_phase.py",
        "        in_doubt = self._commit_covered()\n",
        "        in_doubt = []\n",
    ),
    "S19": RowMutant(
        "rows of one key replace each other",
        "sink_adapters/strategies/idempotent.py",
        'return f"{row[0]}-{row[1]}"',
        'return f"{row[2]}"',
    ),
    "S20": RowMutant(
        "parts are sent before their checkpoint is complete",
        "sink_adapters/strategies/write_ahead.py",
        "while pending and pending[0][0] <= covered:",
        "while pending:",
    ),
    "S21": RowMutant(
        "every open makes a new user context",
        "sink_adapters/strategies/two_phase.py",
        'if not contexts and hasattr(self.target, "new_user_context"):',
        'if hasattr(self.target, "new_user_context"):',
    ),
    "S22": RowMutant(
        "only the first part file is committed",
        "sink_adapters/files/file_transactions.py",
        "for number, bucket in enumerate(buckets, start=1)}",
        "for number, bucket in enumerate(buckets[:1], start=1)}",
    ),
    "S23": RowMutant(
        "lingering transactions are not aborted",
        "sink_adapters/strategies/two_phase.py",
        "            if transaction not in in_doubt:",
        "            if False:",
    ),
    "S24": RowMutant(
        "the committer is not queried",
        "sink_adapters/strategies/write_ahead.py",
        "if not self.committer.is_committed(part) and not self._send(part, rows):",
        "if not self._send(part, rows):",
    ),
    "S25": RowMutant(
        "no segment is revealed on restore",
        "sink_adapters/strategies/masked.py",
        "            self._reveal_restored(generation, self._covered)",
        "            pass",
    ),
    "S26": RowMutant(
        "the plain sink claims exactly-once",
        "sink_adapters/strategies/strategy_claims.py",
        'what an exactly-once engine alone gives",\n        claims=AT_LEAST,',
        'what an exactly-once engine alone gives",\n        claims=EXACTLY,',
    ),
    "S27": RowMutant(
        "counts restart at zero after a restore",
        "reference_engine/dataflow/operators.py",
        "                self._add(key, group, total)",
        "                self._add(key, group, 0)",
    ),
}
