"""A host fails, of a cluster that this certification has started: it dies, is cut off, or has a slow link.

A dead host is healed by the worker that is started on it again, after its death was noticed by its silence; a cut by
itself, when the job has recovered on other hosts and the attempt that was cut off has gone on as a zombie, or by `heal`
earlier; a slow link after a moment. `cut` leaves the way to the target open; `cut-all` does not, where the target is an
external system: a shared folder stays.
"""

from __future__ import annotations

from typing import Final

from sinkproof.chaos.faults.fault_kind import host_fault

KILL_HOST, CUT, CUT_IN, CUT_OUT, CUT_ALL = "kill-host", "cut", "cut-in", "cut-out", "cut-all"
SLOW_LINK, HEAL = "slow-link", "heal"
CUTS: Final = (CUT, CUT_IN, CUT_OUT, CUT_ALL)
CARRIED_OUT, REFUSED = b"done", b"refused"  # answers to an attempt that requests one of them
NOT_STRUCK: Final = "not struck"  # the event that the request of an attempt was not carried out
SENTENCES: Final = {
    KILL_HOST: "host crash: the host of this attempt falls silent, and every process on it is killed",
    CUT: "network partition: the host of this attempt is cut off from the coordinator, but not from the target; the "
    "attempt goes on when its successor runs elsewhere",
    CUT_IN: "network partition, one way: the host of this attempt hears no other host, but is heard",
    CUT_OUT: "network partition, one way: the host of this attempt hears the other hosts, but is not heard",
    CUT_ALL: "network partition: the host of this attempt is cut off from all other hosts and from external systems",
    SLOW_LINK: "slow link: what the host of this attempt sends and receives is late, for a while",
    HEAL: "the network is healed: hosts that were cut off can be reached again",
}
OF_HOSTS: Final = tuple(host_fault(word, sentence, anywhere=word == HEAL) for word, sentence in SENTENCES.items())
