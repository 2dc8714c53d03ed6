"""The list of all canaries, each with its root cause and the findings that convict it, and of all controls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sinkproof.canaries import controls, idempotent, masked, two_phase, write_ahead
from sinkproof.canaries import controls_on_database as controls_database
from sinkproof.canaries import late_failures as rare
from sinkproof.canaries import power_loss as power
from sinkproof.canaries import transactions as tx
from sinkproof.chaos.schedule import NO_FAULT

REAL: Final = ("simulated", "process")
ON_SPARK: Final = frozenset(  # a trial takes seconds there, and points pass at other times than in a simulation
    {
        "close() removes pending files",
        "commit copies again",
        "commit raises on repeat",
        "forgets pending on restore",
        "marker after data",
        "marker before data",
        "names by what is pending",
        "no flush in snapshot",
        "publishes in snapshot",
        "skip if id <= max",
        "swallows a failed rename",
        "unfenced zombie",
    }
)
VIRTUAL: Final = ("simulated",)  # needs a clock or a power supply that faults can control
ROOT_CAUSES: Final = {
    "R1": "data and progress marker are not one step",
    "R2": "a name or key is not stable, or not unique",
    "R3": "skips more, or less, than what was done",
    "R4": "acknowledges what is not there yet",
    "R5": "publishes too early, or too late",
    "R6": "goes on as if a commit had worked",
    "R7": "takes an unknown outcome for a known one",
    "R8": "a handle means another transaction by now",
    "R9": "the target forgets in time",
    "R10": "an old attempt goes on, unfenced",
    "R11": "something is left over, and in the way",
    "R12": "rows go to the wrong checkpoint",
    "R13": "of two commits one is forgotten",
    "R14": "restores something else than what there was",
    "R15": "tidies away what is still needed",
    "R16": "not forced to disk",
    "R17": "a replay is cut in another way",
    "R18": "the target does something else than the sink believes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """`oracles`, `faults`: a finding of one of these oracles with one of these faults last shows its sin; "" is none.

    `under`: the rest of the schedule that shows the sin: another job, greater ids, another order of subtasks.
    `times`: the least number of faults that shows it. `shells`: where it can be convicted.
    """

    name: str
    contract: type
    root_cause: str
    oracles: frozenset[str]
    faults: tuple[str, ...]
    under: str = NO_FAULT
    times: int = 1
    shells: tuple[str, ...] = REAL


def _canary(
    name: str,
    contract: type,
    root_cause: str,
    *,
    oracles: str,
    faults: str,
    under: str = NO_FAULT,
    times: int = 1,
    shells: tuple[str, ...] = REAL,
) -> Canary:
    return Canary(
        name=name,
        contract=contract,
        root_cause=root_cause,
        oracles=frozenset(oracles.split()),
        faults=tuple("" if word == "none" else word for word in faults.split()),
        under=under,
        times=times,
        shells=(*shells, "spark") if name in ON_SPARK else shells,
    )


DEATHS: Final = "kill-job kill"
POWER: Final = "lose-power lose-bytes lose-names"
LOSS: Final = "O1 O10"
RESCALED: Final = "job=scale-in"
CANARIES: Final = (
    # R1: data and marker are two steps.
    _canary("marker after data", write_ahead.MarkerAfterData, "R1", oracles="O2", faults=DEATHS),
    _canary("marker before data", write_ahead.MarkerBeforeData, "R1", oracles=LOSS, faults=DEATHS),
    _canary("commit copies again", two_phase.CommitCopiesAgain, "R1", oracles="O2", faults=DEATHS),
    _canary("ignores the batch id", write_ahead.IgnoresBatchId, "R1", oracles="O2", faults=DEATHS),
    # R2: names and keys of rows and files.
    _canary("dedup key made in open()", idempotent.KeyMadeInOpen, "R2", oracles="O2", faults=DEATHS),
    _canary("dedup key without the split", idempotent.KeyWithoutSplit, "R2", oracles="O1", faults="none"),
    _canary("names by what is pending", two_phase.NamesByWhatIsPending, "R2", oracles="O1", faults="none"),
    _canary(
        "one prefix for two sinks",
        tx.OnePrefixForTwoSinks,
        "R2",
        oracles="O1 O2",
        faults="none",
        under="job=two-sinks",
        shells=VIRTUAL,
    ),
    # R3: skipping.
    _canary("skip if id <= max", write_ahead.SkipsUpToMax, "R3", oracles=LOSS, faults=DEATHS),
    _canary(
        "end of input uses the largest id", write_ahead.EndOfInputIsTheLargestId, "R3", oracles="O1", faults="decline"
    ),
    _canary("never skips", write_ahead.NeverSkips, "R3", oracles="O2", faults=DEATHS),
    # R4: early acknowledgement.
    _canary("no flush in snapshot", two_phase.NoFlushInSnapshot, "R4", oracles=LOSS, faults=DEATHS),
    _canary(
        "no flush of the producer", idempotent.NoFlushOfProducer, "R4", oracles=LOSS, faults=DEATHS, under="job=sparse"
    ),
    _canary("asynchronous error dropped", idempotent.LateErrorDropped, "R4", oracles=LOSS, faults="error"),
    # R5: publishing too early, or never.
    _canary("publishes in snapshot", two_phase.PublishesInSnapshot, "R5", oracles="O3", faults="none"),
    _canary("reveals what is staged", masked.RevealsWhatIsStaged, "R5", oracles="O3", faults="none"),
    _canary("commits the checkpoint before", tx.CommitsTheOneBefore, "R5", oracles="O1", faults="none"),
    # R6: failed commits.
    _canary("swallows a failed rename", two_phase.SwallowsFailedRename, "R6", oracles="O1", faults="error"),
    _canary("takes silence for success", tx.TakesSilenceForSuccess, "R6", oracles="O1", faults="error"),
    _canary(
        "swallows an unknown transaction",
        tx.SwallowsUnknownTransaction,
        "R6",
        oracles="O1",
        faults="expire",
        shells=VIRTUAL,
    ),
    # R7, R8: unknown outcomes, handles that changed their meaning.
    _canary("cleans up on any commit error", tx.CleansUpOnAnyError, "R7", oracles="O1", faults="error"),
    _canary("resends in a new transaction", tx.ResendsInNewTransaction, "R7", oracles="O2", faults="error"),
    _canary("asks, then sends", idempotent.AsksThenSends, "R7", oracles="O2", faults="land stop", shells=VIRTUAL),
    _canary("pooled producers reused", tx.ReusesProducers, "R8", oracles="O2 O3", faults=DEATHS),
    # R9: retention and timeouts of the target.
    _canary("ignores the time limit", tx.IgnoresTheTimeLimit, "R9", oracles="O1", faults="expire", shells=VIRTUAL),
    _canary("marker under retention", masked.MarkerUnderRetention, "R9", oracles="O1", faults="expire", shells=VIRTUAL),
    # R10: zombies.
    _canary("unfenced zombie", two_phase.UnfencedZombie, "R10", oracles="O1 O2 O9", faults="stop"),
    _canary("unique names, no fencing", write_ahead.UniqueNamesNoFencing, "R10", oracles="O2 O9", faults="stop"),
    _canary("same name, shorter overwrite", two_phase.SameNameShorterOverwrite, "R10", oracles="O1 O9", faults="stop"),
    # R11: residue.
    _canary("sweeps only its own", tx.SweepsOnlyItsOwn, "R11", oracles="O7", faults=DEATHS, under=RESCALED),
    _canary("commit raises on repeat", two_phase.CommitRaisesOnRepeat, "R11", oracles="O6 O1 O10", faults=DEATHS),
    _canary("never sweeps", two_phase.NeverSweeps, "R11", oracles="O7", faults=DEATHS),
    # R12: rows in the wrong checkpoint.
    _canary("commits only the notified", tx.CommitsOnlyTheNotified, "R12", oracles="O1", faults="lose decline"),
    _canary("commits whatever is pending", tx.CommitsWhateverIsPending, "R12", oracles="O3", faults="none"),
    _canary("abort clears the buffer", tx.AbortClearsBuffer, "R12", oracles="O1", faults="decline"),
    _canary("abort keeps rows twice", tx.AbortKeepsRowsTwice, "R12", oracles="O2", faults="decline"),
    _canary("ten comes before nine", rare.TenComesBeforeNine, "R12", oracles="O3", faults="none", under="ids=8"),
    # R13: two commits for one checkpoint.
    _canary("one marker for two transactions", tx.OneMarkerForTwo, "R13", oracles=LOSS, faults=f"{DEATHS} error"),
    _canary("says success first", tx.MarksFirst, "R13", oracles="O11", faults="none", shells=VIRTUAL),
    _canary("subtask by subtask", tx.CommitsSubtaskBySubtask, "R13", oracles="O4", faults="none", shells=VIRTUAL),
    _canary(
        "the last lists what is there",
        rare.LastSubtaskListsFiles,
        "R13",
        oracles="O1",
        faults="none",
        under="orders=notify",
    ),
    # R14: restoring.
    _canary("forgets pending on restore", two_phase.ForgetsPendingOnRestore, "R14", oracles=LOSS, faults=DEATHS),
    _canary(
        "drops what removed subtasks left",
        tx.DropsWhatRemovedSubtasksLeft,
        "R14",
        oracles=LOSS,
        faults=DEATHS,
        under=RESCALED,
    ),
    _canary("restore error means empty", tx.RestoreErrorMeansEmpty, "R14", oracles=LOSS, faults=DEATHS, under=RESCALED),
    # R15: removing too much.
    _canary("close() removes pending files", two_phase.CloseRemovesPending, "R15", oracles="O1 O6", faults="kill"),
    _canary("sweeps all subtasks", tx.SweepsAllSubtasks, "R15", oracles=LOSS, faults=DEATHS),
    _canary("collects before it reveals", masked.CollectsBeforeItReveals, "R15", oracles=LOSS, faults=DEATHS),
    _canary("never collects", masked.NeverCollects, "R15", oracles="O7", faults=DEATHS),
    _canary("janitor by age", tx.JanitorByAge, "R15", oracles="O1 O6", faults="maintain", shells=VIRTUAL),
    _canary("three places", rare.ThreePlaces, "R15", oracles="O1", faults="kill-job", times=3),
    # R16: power loss.
    _canary("rename without fsync", power.RenamesWithoutFsync, "R16", oracles="O8", faults=POWER, shells=VIRTUAL),
    _canary("names are not forced", power.NeverForcesNames, "R16", oracles="O8", faults=POWER, shells=VIRTUAL),
    _canary("forces when it commits", power.ForcesWhenItCommits, "R16", oracles="O8", faults=POWER, shells=VIRTUAL),
    # A replay is cut in another way.
    _canary("hash of a batch", idempotent.HashOfBatch, "R17", oracles="O2", faults=DEATHS, under="job=rebatched"),
    _canary("position in the epoch", idempotent.PositionInEpoch, "R17", oracles="O1 O2", faults=DEATHS),
    # R18: semantics of the target.
    _canary("timestamp is the checkpoint", idempotent.TimestampIsCheckpoint, "R18", oracles="O1 O5", faults="none"),
    _canary("timestamp falls back", idempotent.TimestampFallsBack, "R18", oracles="O1 O5", faults=DEATHS),
    _canary(
        "timestamp is the clock",
        idempotent.TimestampIsClock,
        "R18",
        oracles="O1 O5",
        faults=DEATHS,
        under="job=clock-skew",
        shells=VIRTUAL,
    ),
    _canary("counter retried", idempotent.CounterRetried, "R18", oracles="O2", faults="error"),
    _canary("counter not retried", idempotent.CounterNotRetried, "R18", oracles="O1", faults="error"),
)
CONTROLS_ON_SPARK: Final = 3  # of the following: a schedule takes a fifth of a second there
CONTROLS: Final = (
    ("two-phase files", controls.FolderContract),
    ("write-ahead files", controls.WriteAheadControl),
    ("transactions on a server", controls_database.TransactionalControl),
    ("transactions with a time limit", controls_database.TimeLimitControl),
    ("files on a disk without power", power.PowerControl),
    ("masked rows on a server", controls_database.MaskedControl),
    ("upserts on a server", controls_database.IdempotentControl),
    ("last row per key", idempotent.LastPerKeyControl),
    ("counters on a server", idempotent.CountingControl),
    ("asynchronous producer", controls_database.AsynchronousControl),
)
