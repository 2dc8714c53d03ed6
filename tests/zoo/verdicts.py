"""What is known of each sink of the zoo: the grade of a right one; of a wrong one its sin, and what shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sinkproof.chaos.schedule import Schedule
from sinkproof.reports.document import Finding

EXACTLY, EFFECTIVELY, AT_LEAST = "exactly-once", "effectively-once", "at-least-once"
RIGHT: Final = {
    "sqlite_tables:RowsAndMarker": EXACTLY,
    "sqlite_tables:OpenConnection": EXACTLY,
    "sqlite_tables:FencesItsPredecessors": EXACTLY,
    "sqlite_tables:OpenTransaction": EXACTLY,
    "sqlite_tables:UpsertByIdentity": EFFECTIVELY,
    "appended_files:AppendTruncate": EXACTLY,
    "appended_files:PlainAppend": AT_LEAST,
    "waiting_rows:AFileForEachKey": EXACTLY,
    "renamed_files:LinkedFiles": EXACTLY,
    "renamed_files:LinkedFilesUncopied": EXACTLY,
    "manifests:Manifest": EXACTLY,
    "five_methods:TwoPhase": EXACTLY,
    "five_methods:TwoPhaseCopied": EXACTLY,
    "five_methods:WriteAhead": EXACTLY,
    "surroundings:WorkerThread": EXACTLY,
    "waiting_rows:Waiting": EXACTLY,
    "carried_over:Carrying": EXACTLY,
    "locked_logs:Locked": EXACTLY,
    "together:Together": EXACTLY,
    "masked_folders:Masked": EXACTLY,
    "table_versions:Table": EXACTLY,
    "table_versions:FencedLog": EXACTLY,
    "table_versions:TidiesUp": EXACTLY,
    "doubtful:OneAtATime": EXACTLY,
    "doubtful:NotYet": EXACTLY,
    "doubtful:TooOldIsLost": EXACTLY,
    "orderly_ends:RemovesWhatIsTemporary": EXACTLY,
    "orderly_ends:FailedCommitsAgain": EXACTLY,
    "asked_to_end:TidiesAndExits": EXACTLY,
    "own_service:Puts": EXACTLY,
    "named_by_position:Positions": EXACTLY,
}


# In the process shell one. All are certified in full where there is time for it (`-m longer`), as is the README's sink.
BY_REAL_KILLS: Final = ("sqlite_tables:RowsAndMarker",)


@dataclass(frozen=True, kw_only=True)
class Sin:
    """Its root cause, the oracle that convicts it, and how the schedule ends that shows it: a fault kind, or a job
    without a fault. `job`: which one shows it.
    """

    root: str
    oracles: str
    ending: str
    job: str = ""
    shell: str = "simulated"

    def is_shown_by(self, finding: Finding) -> bool:
        return finding.oracle in self.oracles.split() and self.may_be_shown_by(finding.schedule)

    def may_be_shown_by(self, schedule: Schedule | str) -> bool:
        line = f" {schedule}"
        if self.job and f"job={self.job} " not in line:
            return False
        return any(line.endswith(each) for each in self.ending.split(","))


WRONG: Final = {
    "sqlite_tables:UpsertByCounter": Sin(root="R2", oracles="O1", ending="=kill"),
    "sqlite_tables:MarkerInSecondTransaction": Sin(root="R1", oracles="O2", ending="=kill-job"),
    "sqlite_tables:AutocommitInWrite": Sin(root="R5", oracles="O2", ending="=kill"),
    "sqlite_tables:SkipsByLastOffset": Sin(root="R3", oracles="O1", ending=" no-fault"),
    "sqlite_tables:FencesItsOwnNumberOnly": Sin(
        root="R10", oracles="O2", ending="=stop", job="scale-in", shell="process"
    ),
    "appended_files:WrongLength": Sin(root="R14", oracles="O1 O10", ending="=kill-job,=kill"),
    "appended_files:PickledBeforeTheFlush": Sin(root="R4", oracles="O10", ending="=kill-job"),
    "appended_files:PlainAppendThatClaimsTooMuch": Sin(root="R1", oracles="O2", ending="=kill"),
    "appended_files:TornLine": Sin(root="R7", oracles="O1", ending="=kill-job"),
    "renamed_files:NameWithoutSubtask": Sin(root="R2", oracles="O1", ending=" no-fault"),
    "renamed_files:OnlyTheNotified": Sin(root="R12", oracles="O1", ending="=lose"),
    "renamed_files:DeletesWhatOthersStaged": Sin(root="R15", oracles="O1 O10", ending="=kill-job,=kill"),
    "renamed_files:OnlyTheFirstState": Sin(root="R14", oracles="O1", ending="=kill-job"),
    "renamed_files:AFailedLinkIsMadeAgain": Sin(root="R7", oracles="O2", ending="=unanswered", shell="process"),
    "renamed_files:AbortedDropped": Sin(root="R12", oracles="O1", ending="=decline"),
    "renamed_files:AbortedTwice": Sin(root="R12", oracles="O2", ending="=decline"),
    "renamed_files:IdleEpoch": Sin(root="R12", oracles="O2", ending=" job=sparse no-fault"),
    "renamed_files:ReadsWhatIsStaged": Sin(root="R5", oracles="O3", ending=" no-fault"),
    "renamed_files:PublishesBeforeTheVote": Sin(root="R5", oracles="O3", ending=" no-fault"),
    "manifests:NewNameOnRecovery": Sin(root="R2", oracles="O2", ending="=kill,=lose"),
    "manifests:OlderNotifiedLast": Sin(root="R12", oracles="O1", ending="=late,=repeat"),
    "manifests:ComesBackUnfenced": Sin(root="R10", oracles="O2", ending="=stop", job="scale-in", shell="process"),
    "manifests:ZombieOverwrites": Sin(root="R10", oracles="O9", ending="=stop", shell="process"),
    "five_methods:CommitErrorsSwallowed": Sin(root="R6", oracles="O1", ending="=error", shell="process"),
    "five_methods:WriteAheadAppends": Sin(root="R1", oracles="O2", ending="=kill-job"),
    "five_methods:StaleTable": Sin(root="R10", oracles="O1", ending="=stop", job="zombie-late", shell="process"),
    "carried_over:CarriedInMemoryOnly": Sin(root="R4", oracles="O10", ending="=kill-job"),
    "waiting_rows:UnderANewNumber": Sin(root="R14", oracles="O1", ending="=kill-job", job="scale-in"),
    "waiting_rows:OneMarkForAll": Sin(root="R3", oracles="O1 O10", ending="=kill-job"),
    "waiting_rows:OnlyTheRestored": Sin(root="R12", oracles="O1", ending="=kill-job"),
    "waiting_rows:EmptyEpochForgets": Sin(root="R12", oracles="O1", ending="=kill-job"),
    "waiting_rows:EmptyEpochReturns": Sin(root="R12", oracles="O1", ending="=decline"),
    "waiting_rows:IdsAsText": Sin(root="R12", oracles="O3", ending=" ids=8 no-fault"),
    "waiting_rows:RestoredAsText": Sin(root="R12", oracles="O1", ending="=kill-job,=kill"),
    "waiting_rows:LiveList": Sin(root="R12", oracles="O3", ending=" no-fault"),
    "waiting_rows:AllAtOnce": Sin(root="R5", oracles="O3", ending=" no-fault"),
    "waiting_rows:LaterOnesForgotten": Sin(root="R12", oracles="O1", ending=" no-fault"),
    "waiting_rows:NextMeansDone": Sin(root="R5", oracles="O3", ending=" no-fault"),
    "waiting_rows:EndPublishes": Sin(root="R5", oracles="O3", ending=" no-fault"),
    "waiting_rows:NamesThatCollide": Sin(root="R2", oracles="O1", ending=" no-fault"),
    "waiting_rows:NameOfThePublisher": Sin(root="R2", oracles="O2", ending="=kill-job"),
    "waiting_rows:KeepsTheLastFive": Sin(root="R12", oracles="O1", ending="=lose", job="many-checkpoints"),
    "waiting_rows:LinesOfText": Sin(root="R18", oracles="O1", ending=" job=edge-case-values no-fault"),
    "waiting_rows:FullBuffersAreNotHeldBack": Sin(root="R5", oracles="O3", ending=" job=large-batches no-fault"),
    "waiting_rows:KeysAreMadeAlike": Sin(root="R2", oracles="O1", ending=" job=edge-case-values no-fault"),
    "waiting_rows:TheFirstDayStandsForAll": Sin(root="R13", oracles="O1", ending="=kill-job"),
    "locked_logs:HeadBeforeTheLock": Sin(root="R10", oracles="O1", ending="=pause", shell="process"),
    "locked_logs:GivesUpTheLock": Sin(root="R6", oracles="O1", ending="=pause", job="sparse", shell="process"),
    "locked_logs:LooksAndThenAppends": Sin(root="R10", oracles="O2", ending="=stop", shell="process"),
    "doubtful:DecidedIsForgotten": Sin(root="R14", oracles="O1", ending="=kill", job="late-settling"),
    "doubtful:InDoubtUnsaid": Sin(root="R11", oracles="O6", ending="=kill-job"),
    "doubtful:TooOldIsDropped": Sin(root="R9", oracles="O1", ending="=kill", job="outage"),
    "doubtful:SweepsByAge": Sin(root="R15", oracles="O1", ending="=kill", job="outage"),
    "doubtful:NumbersFromNothing": Sin(root="R2", oracles="O1", ending="=kill-job"),
    "doubtful:StagesInWhatIsThere": Sin(root="R8", oracles="O2", ending="=kill-job"),
    "half_done:OneTemporaryForAll": Sin(root="R2", oracles="O1", ending="=pause", job="sparse", shell="process"),
    "half_done:ShardsByHash": Sin(root="R2", oracles="O2", ending="=kill-job,=kill,=stop", shell="process"),
    "half_done:FailedIsInMemoryOnly": Sin(
        root="R6", oracles="O1", ending="=kill-job", job="late-settling", shell="process"
    ),
    "half_done:EqualMeansTheSame": Sin(root="R3", oracles="O1", ending=" job=edge-case-values no-fault"),
    "half_done:TakesForForcedWhatIsThere": Sin(
        root="R7", oracles="O8", ending="=lose-names,=lose-power", shell="process"
    ),
    "half_done:VotesWithoutTheWorker": Sin(root="R4", oracles="O1", ending="=error", shell="process"),
    "half_done:TheSameAndCopied": Sin(root="R7", oracles="O8", ending="=lose-names,=lose-power"),
    "masked_folders:MarkerGoesBack": Sin(
        root="R10", oracles="O9 O1", ending="=stop", job="slow-detection", shell="process"
    ),
    "named_by_position:EmptyOverFull": Sin(
        root="R10", oracles="O9 O1", ending="=stop", job="late-first-rows", shell="process"
    ),
    "masked_folders:CollectsWhatOthersPromised": Sin(
        root="R15", oracles="O1", ending="=kill-job", job="scale-out", shell="process"
    ),
    "together:BothMissTheLast": Sin(root="R10", oracles="O1", ending="=pause", job="late-settling", shell="process"),
    "together:CountsTheNewOnes": Sin(root="R14", oracles="O4", ending="=kill-job", job="scale-in", shell="process"),
    "together:RemovesMoreThanItMerged": Sin(
        root="R10", oracles="O1", ending="=pause", job="late-settling", shell="process"
    ),
    "together:BeginsAnewWithoutState": Sin(
        root="R2", oracles="O1", ending="=kill-job", job="scale-in-and-out", shell="process"
    ),
    "together:WritesOverTheDirectory": Sin(root="R1", oracles="O1", ending="=kill-job", job="large-batches"),
    "table_versions:NamesComeFree": Sin(root="R2", oracles="O1", ending="=pause", shell="process"),
    "table_versions:LooksBackFour": Sin(
        root="R3", oracles="O2", ending="=stop", job="zombie-very-late", shell="process"
    ),
    "table_versions:TwoSnapshots": Sin(root="R10", oracles="O2", ending="=stop", shell="process"),
    "table_versions:OwnNumberOnly": Sin(root="R10", oracles="O2", ending="=stop", job="scale-in", shell="process"),
    "table_versions:LeftForTheNext": Sin(root="R6", oracles="O1", ending="=error", shell="process"),
    "table_versions:GoneIsTakenForPublished": Sin(root="R9", oracles="O1", ending="=maintain", shell="process"),
    "remembering:BegunIsTakenForDone": Sin(
        root="R6", oracles="O1", ending="=error", job="reused-process", shell="process"
    ),
    "remembering:RowsOutliveTheirAttempt": Sin(
        root="R12", oracles="O1 O2", ending="=error", job="reused-process", shell="process"
    ),
    "own_service:WhatFailsIsForgotten": Sin(root="R6", oracles="O1", ending="=error", shell="process"),
    "own_service:LostReplyIsFailure": Sin(root="R7", oracles="O2", ending="=unanswered", shell="process"),
    "orderly_ends:RemovesWhatItPromised": Sin(root="R15", oracles="O1", ending="=kill", shell="process"),
    "orderly_ends:RemovedWithItsObject": Sin(root="R15", oracles="O1", ending="=kill", shell="process"),
    "orderly_ends:FailedCommitsForgotten": Sin(root="R6", oracles="O1", ending="=error", shell="process"),
    "asked_to_end:AllIsCompleteInTheEnd": Sin(root="R5", oracles="O2 O3", ending="=terminate", shell="process"),
    "asked_to_end:NotesAndPublishesEarly": Sin(root="R5", oracles="O2 O3", ending="=terminate-later", shell="process"),
}
# Convicted where there is time for it (`-m longer`): each has a sibling with the same root cause and fault, here or
# among the tests of the stage that convicts it.
LEFT_TO_SIBLINGS: Final = frozenset(
    {
        "sqlite_tables:AutocommitInWrite",
        "renamed_files:OnlyTheFirstState",
        "renamed_files:DeletesWhatOthersStaged",
        "renamed_files:AbortedTwice",
        "manifests:ComesBackUnfenced",
        "manifests:ZombieOverwrites",
        "five_methods:CommitErrorsSwallowed",
        "waiting_rows:KeepsTheLastFive",
        "waiting_rows:UnderANewNumber",
        "waiting_rows:KeysAreMadeAlike",
        "waiting_rows:OnlyTheRestored",
        "locked_logs:GivesUpTheLock",
        "half_done:FailedIsInMemoryOnly",
        "table_versions:NamesComeFree",
        "half_done:TheSameAndCopied",
        "together:BothMissTheLast",
        "together:CountsTheNewOnes",
        "together:WritesOverTheDirectory",
        "table_versions:OwnNumberOnly",
        "remembering:RowsOutliveTheirAttempt",
        "orderly_ends:RemovedWithItsObject",
        "half_done:TakesForForcedWhatIsThere",
        "locked_logs:HeadBeforeTheLock",
        "sqlite_tables:FencesItsOwnNumberOnly",
        "own_service:WhatFailsIsForgotten",
    }
)
REMEMBERING: Final = ("surroundings:RemembersWhatIsDone", "surroundings:RemembersAndCopies")
UNJUDGED: Final = {  # and a word of the reason
    ("sqlite_tables:LockedOut", "simulated"): "database is locked",
    ("sqlite_tables:LockedOut", "process"): "database is locked",
    ("renamed_files:FreezesTooLittle", "simulated"): "lacks staged/",
    ("surroundings:StoreElsewhere", "simulated"): "a copy does not bring back",
    ("surroundings:StoreNeverEmptied", "simulated"): "are still there after teardown",
    ("surroundings:StoreNeverEmptied", "process"): "are still there after teardown",
    ("surroundings:OncePerProcess", "simulated"): "ended differently",
    ("surroundings:InAVariable", "simulated"): "are still there after teardown",
    ("surroundings:InAVariable", "process"): "committed() runs in another process|before the first run there are",
}
