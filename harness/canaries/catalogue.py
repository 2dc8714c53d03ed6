"""The list of all canaries, each with its root cause and the findings that convict it, and of all controls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sinkproof.campaign.outward_calls_plan import NATIVE_CODE
from sinkproof.campaign.process_plan import WATCHED_POWER
from sinkproof.campaign.stage import Plan
from sinkproof.canaries import between_calls as calls
from sinkproof.canaries import code_of_users as users
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
REAL_ONLY: Final = ("process",)
WALL_CLOCK: Final = REAL_ONLY  # that of this process, with the engine and the oracle in it, is never moved
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
    "R19": "a key or value is not written as it was sent",
}


@dataclass(frozen=True, slots=True)
class Canary:
    """`oracle_names`, `fault_kinds`: a finding of one of these oracles with one of these faults last shows its sin.

    `under`: the rest of the schedule that shows the sin: another job, greater ids, another order of subtasks.
    `times`: the least number of faults that shows it. `at_lines`: faults strike between two lines of it only.
    `shells`: where it can be convicted, besides ON_SPARK. `stages`: of the plan for processes, which watch its system
    calls: in them alone it can be convicted.
    """

    name: str
    contract: type
    root_cause: str
    oracle_names: str
    fault_kinds: str  # "none": without a fault
    under: str = NO_FAULT
    times: int = 1
    at_lines: bool = False
    shells: tuple[str, ...] = REAL
    stages: Plan = ()

    @property
    def oracles(self) -> frozenset[str]:
        return frozenset(self.oracle_names.split())

    @property
    def faults(self) -> tuple[str, ...]:
        """An empty kind stands for a run without a fault."""
        return tuple("" if word == "none" else word for word in self.fault_kinds.split())


DEATHS: Final = "kill-job kill"
POWER: Final = "lose-power lose-bytes lose-names"
POWER_WATCHED: Final = f"{POWER} lose-tails lose-newest lose-older"
LOSS: Final = "O1 O10"
RESCALED: Final = "job=scale-in"
CANARIES: Final = (
    # R1: data and marker are two steps.
    Canary("marker after data", write_ahead.MarkerAfterData, "R1", "O2", DEATHS),
    Canary("marker before data", write_ahead.MarkerBeforeData, "R1", LOSS, DEATHS),
    Canary("commit copies again", two_phase.CommitCopiesAgain, "R1", "O2", DEATHS),
    Canary("ignores the batch id", write_ahead.IgnoresBatchId, "R1", "O2", DEATHS),
    Canary("installed, notes first", users.InstalledAndNotesFirst, "R1", LOSS, DEATHS, at_lines=True),
    Canary("no journal, in native code", calls.NoJournal, "R1", "O1 O2", DEATHS, shells=REAL_ONLY, stages=NATIVE_CODE),
    # R2: names and keys of rows and files.
    Canary("dedup key made in open()", idempotent.KeyMadeInOpen, "R2", "O2", DEATHS),
    Canary("dedup key without the split", idempotent.KeyWithoutSplit, "R2", "O1", "none"),
    Canary(
        "part named by the day",
        write_ahead.PartNamedByTheDay,
        "R2",
        "O2",
        DEATHS,
        under="job=outage",
        shells=WALL_CLOCK,
    ),
    Canary("names by what is pending", two_phase.NamesByWhatIsPending, "R2", "O1", "none"),
    Canary(
        "one prefix for two sinks",
        tx.OnePrefixForTwoSinks,
        "R2",
        "O1 O2",
        "none",
        under="job=two-sinks",
        shells=VIRTUAL,
    ),
    # R3: skipping.
    Canary("skip if id <= max", write_ahead.SkipsUpToMax, "R3", LOSS, DEATHS),
    Canary("end of input uses the largest id", write_ahead.EndOfInputIsTheLargestId, "R3", "O1", "decline"),
    Canary("never skips", write_ahead.NeverSkips, "R3", "O2", DEATHS),
    # R4: early acknowledgement.
    Canary("no flush in snapshot", two_phase.NoFlushInSnapshot, "R4", LOSS, DEATHS),
    Canary("no flush of the producer", idempotent.NoFlushOfProducer, "R4", LOSS, DEATHS, under="job=sparse"),
    Canary("asynchronous error dropped", idempotent.LateErrorDropped, "R4", LOSS, "error"),
    # R5: publishing too early, or never.
    Canary("publishes in snapshot", two_phase.PublishesInSnapshot, "R5", "O3", "none"),
    Canary(
        "commits when asked to end",
        two_phase.CommitsWhenAskedToEnd,
        "R5",
        "O2 O3",
        "terminate",
        shells=REAL_ONLY,
    ),
    Canary("reveals what is staged", masked.RevealsWhatIsStaged, "R5", "O3", "none"),
    Canary("commits the checkpoint before", tx.CommitsTheOneBefore, "R5", "O1", "none"),
    # R6: failed commits.
    Canary("swallows a failed rename", two_phase.SwallowsFailedRename, "R6", "O1", "error"),
    Canary("takes silence for success", tx.TakesSilenceForSuccess, "R6", "O1", "error"),
    Canary("swallows an unknown transaction", tx.SwallowsUnknownTransaction, "R6", "O1", "expire", shells=VIRTUAL),
    # R7, R8: unknown outcomes, handles that changed their meaning.
    Canary("cleans up on any commit error", tx.CleansUpOnAnyError, "R7", "O1", "error"),
    Canary("resends in a new transaction", tx.ResendsInNewTransaction, "R7", "O2", "error"),
    Canary("asks, then sends", idempotent.AsksThenSends, "R7", "O2", "land stop", shells=VIRTUAL),
    Canary("pooled producers reused", tx.ReusesProducers, "R8", "O2 O3", DEATHS),
    # R9: retention and timeouts of the target.
    Canary("ignores the time limit", tx.IgnoresTheTimeLimit, "R9", "O1", "expire", shells=VIRTUAL),
    Canary("marker under retention", masked.MarkerUnderRetention, "R9", "O1", "expire", shells=VIRTUAL),
    # R10: zombies.
    Canary("unfenced zombie", two_phase.UnfencedZombie, "R10", "O1 O2 O9", "stop"),
    Canary("unique names, no fencing", write_ahead.UniqueNamesNoFencing, "R10", "O2 O9", "stop"),
    Canary("same name, shorter overwrite", two_phase.SameNameShorterOverwrite, "R10", "O1 O9", "stop"),
    # R11: residue.
    Canary("sweeps only its own", tx.SweepsOnlyItsOwn, "R11", "O7", DEATHS, under=RESCALED),
    Canary("commit raises on repeat", two_phase.CommitRaisesOnRepeat, "R11", "O6 O1 O10", DEATHS),
    Canary("never sweeps", two_phase.NeverSweeps, "R11", "O7", DEATHS),
    # R12: rows in the wrong checkpoint.
    Canary("commits only the notified", tx.CommitsOnlyTheNotified, "R12", "O1", "lose decline"),
    Canary("commits whatever is pending", tx.CommitsWhateverIsPending, "R12", "O3", "none"),
    Canary("abort clears the buffer", tx.AbortClearsBuffer, "R12", "O1", "decline"),
    Canary("abort keeps rows twice", tx.AbortKeepsRowsTwice, "R12", "O2", "decline"),
    Canary("ten comes before nine", rare.TenComesBeforeNine, "R12", "O3", "none", under="ids=8"),
    # R13: two commits for one checkpoint.
    Canary("one marker for two transactions", tx.OneMarkerForTwo, "R13", LOSS, f"{DEATHS} error"),
    Canary("says success first", tx.MarksFirst, "R13", "O11", "none", shells=VIRTUAL),
    Canary("subtask by subtask", tx.CommitsSubtaskBySubtask, "R13", "O4", "none", shells=VIRTUAL),
    Canary("the last lists what is there", rare.LastSubtaskListsFiles, "R13", "O1", "none", under="orders=notify"),
    # R14: restoring.
    Canary("forgets pending on restore", two_phase.ForgetsPendingOnRestore, "R14", LOSS, DEATHS),
    Canary("drops what removed subtasks left", tx.DropsWhatRemovedSubtasksLeft, "R14", LOSS, DEATHS, under=RESCALED),
    Canary("restore error means empty", tx.RestoreErrorMeansEmpty, "R14", LOSS, DEATHS, under=RESCALED),
    Canary(
        "loses what an earlier run left",
        users.LosesWhatAnEarlierRunLeft,
        "R14",
        LOSS,
        "lose",
        under="job=sparse",
        shells=REAL_ONLY,
    ),
    # R15: removing too much.
    Canary("close() removes pending files", two_phase.CloseRemovesPending, "R15", "O1 O6", "kill"),
    Canary("sweeps all subtasks", tx.SweepsAllSubtasks, "R15", LOSS, DEATHS),
    Canary("collects before it reveals", masked.CollectsBeforeItReveals, "R15", LOSS, DEATHS),
    Canary("never collects", masked.NeverCollects, "R15", "O7", DEATHS),
    Canary("janitor by age", tx.JanitorByAge, "R15", "O1 O6", "maintain", shells=VIRTUAL),
    Canary("three places", rare.ThreePlaces, "R15", "O1", "kill-job", times=3),
    # R16: power loss.
    Canary("rename without fsync", power.RenamesWithoutFsync, "R16", "O8", POWER, shells=VIRTUAL),
    Canary("names are not forced", power.NeverForcesNames, "R16", "O8", POWER, shells=VIRTUAL),
    Canary("forces when it commits", power.ForcesWhenItCommits, "R16", "O8", POWER, shells=VIRTUAL),
    Canary(
        "bytes are not forced, no hook",
        calls.NamesForcedOnly,
        "R16",
        "O8",
        POWER_WATCHED,
        shells=REAL_ONLY,
        stages=WATCHED_POWER,
    ),
    # A replay is cut in another way.
    Canary("hash of a batch", idempotent.HashOfBatch, "R17", "O2", DEATHS, under="job=rebatched"),
    Canary("position in the epoch", idempotent.PositionInEpoch, "R17", "O1 O2", DEATHS),
    # R18: semantics of the target.
    Canary("timestamp is the checkpoint", idempotent.TimestampIsCheckpoint, "R18", "O1 O5", "none"),
    Canary("timestamp falls back", idempotent.TimestampFallsBack, "R18", "O1 O5", DEATHS),
    Canary(
        "timestamp is the clock",
        idempotent.TimestampIsClock,
        "R18",
        "O1 O5",
        DEATHS,
        under="job=clock-skew",
        shells=VIRTUAL,
    ),
    Canary("counter retried", idempotent.CounterRetried, "R18", "O2", "error"),
    Canary("counter not retried", idempotent.CounterNotRetried, "R18", "O1", "error"),
    # R19: keys and values.
    Canary("cuts restored values", write_ahead.CutsRestoredValues, "R19", "O12", DEATHS),
    Canary("value of the row before", write_ahead.ValueOfTheRowBefore, "R19", "O12", "none"),
)
CANARIES_OF_TESTS: Final = (  # a trial takes longer than those before a certificate may
    Canary("loses behind many rows", users.LosesBehindManyRows, "R3", LOSS, "none", shells=REAL_ONLY),
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
    ("rows in full", write_ahead.WholeRowsControl),
)
CONTROLS_UNDER_WATCH: Final = (
    ("a journal, in native code", calls.JournalControl, NATIVE_CODE),
    ("bytes are forced, no hook", calls.ForcedControl, WATCHED_POWER),
)
CONTROLS_OF_TESTS: Final = (
    ("exits when asked to end", two_phase.ExitsWhenAskedToEnd),
    ("two logs, installed", users.TwoLogsControl),
    ("two logs elsewhere", users.ElsewhereControl),
    ("two logs and many rows", users.SpillingControl),
)
