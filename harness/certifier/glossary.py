"""A sentence for every word that a certificate may use: points, faults, oracles, claims, root causes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sinkproof.canaries.catalogue import ROOT_CAUSES
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.points import CATALOGUE

ORACLES: Final = {
    "O1": "loss: a row of the input is not visible when the job has ended",
    "O2": "duplicate: a row is visible more often than the input has it",
    "O3": "early row: a reader saw a row before its checkpoint was complete, or saw it twice",
    "O4": "torn checkpoint: a reader saw some rows of a complete checkpoint, but not all",
    "O5": "disorder: rows of one key are not read in the order in which they were written",
    "O6": "no recovery: the job did not finish without further faults, or rows of complete checkpoints stay invisible",
    "O7": "residue: something invisible lingers after one more recovery without faults",
    "O8": "power: loss, duplicate or no recovery after the power was lost",
    "O9": "zombie: a replaced attempt changed the committed view",
    "O10": "false vote: all acknowledged a checkpoint, but a recovery from it did not restore its rows",
    "O11": "false marker: rows that the sink's own marker calls complete are not visible",
    "O12": "altered row: a row is read with another key, value or event time than it was sent with",
}
CLAIMS: Final = {
    "NO_LOSS": "in the end every row is there",
    "NO_DUPLICATES": "in the end no row is there twice",
    "NO_EARLY_ROWS": "no reader sees a row before its checkpoint is complete",
    "FENCES_ZOMBIES": "a replaced attempt that continues changes nothing",
    "ATOMIC_CHECKPOINT": "a checkpoint becomes visible as a whole, over all subtasks",
    "ORDER_PER_KEY": "rows of one key are read in the order in which they were written",
    "LIVENESS": "after every fault the job continues and finishes",
    "NO_RESIDUE": "no open transaction, staged row or temporary file is left behind",
    "SURVIVES_POWER_LOSS": "committed rows survive a loss of power",
    "HONEST_MARKERS": "a marker that calls rows complete is never ahead of the rows",
    "INTACT_ROWS": "every row is read with the key and the value that it was sent with",
}


def glossary() -> Mapping[str, Mapping[str, str]]:
    """The glossary of a certificate, by kind of word."""
    return {
        "points": CATALOGUE,
        "faults": {word: kind.sentence for word, kind in KINDS.items()},
        "oracles": ORACLES,
        "claims": CLAIMS,
        "root_causes": ROOT_CAUSES,
    }
