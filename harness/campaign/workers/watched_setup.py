"""Whether a contract's `setup` and `teardown` keep to their scratch folder: both are called in a watched process."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.system_calls.place_names import is_drawn, is_sent
from sinkproof.chaos.system_calls.seccomp_filter import put_on
from sinkproof.chaos.system_calls.supervisor import maps_below_folder
from sinkproof.chaos.system_calls.watched_program import NotWatched, watch_of
from sinkproof.subject.contract import Contract
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, clear_folder, fresh_folder

ENTRY: Final = f"{__name__}:set_up_twice"
CALLS_SECONDS: Final = 20.0  # a setup that takes longer has started something


def keeps_to_its_folder(server: ForkServer, contract: Contract, scratch: Scratch) -> bool:
    """Nothing outside of it was changed, connected to or bound; and the calls end, without an error."""
    folder, elsewhere = fresh_folder(), dict[str, bool]()
    apart = replace(scratch, path=folder).for_processes()
    child = server.spawn(ENTRY, contract.locator, apart)
    try:
        watch = watch_of(child, folder, elsewhere=elsewhere)
        try:
            ended = child.join(Deadline(CALLS_SECONDS))
        finally:
            child.kill()
            watch.close()
    except NotWatched:
        return False
    finally:
        child.kill()
        child.close()
        shutil.rmtree(folder, ignore_errors=True)
    sent = any(map(is_sent, watch.take_points()))
    reached = sent or watch.names.peers or watch.names.bound or not all(map(maps_below_folder, watch.unseen))
    return ended == 0 and not reached and all(map(is_drawn, elsewhere))


def set_up_twice(inside: Inside, locator: str, scratch: Scratch) -> None:
    """The entry of the process: as before the first run, and between two runs."""
    contract = load(locator)
    put_on(inside.channel)
    contract.call_if_there("setup", scratch)
    contract.call_if_there("teardown", scratch)
    clear_folder(scratch.path)
    contract.call_if_there("setup", scratch)
    contract.call_if_there("teardown", scratch)
