"""Defines what a fault kind is: its word in schedules, where it can be injected, and what it does to the shell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Final, Generic, TypeVar

from sinkproof.chaos.faults.fault_target import FaultableShell, ShellOnHosts, VirtualShell
from sinkproof.chaos.messages.message_points import BROKER
from sinkproof.chaos.points import COMMIT_WINDOW

Shell = TypeVar("Shell", bound=FaultableShell)
SERVICES: Final = "services"  # external systems, which this certification has started
HOSTS: Final = "hosts"  # the job runs on several, which this certification has started
PROCESSES: Final = "processes"  # attempts that are processes, and an engine that is simulated


def anywhere(actor: str, point: str) -> bool:
    return True


@dataclass(frozen=True)
class FaultKind(Generic[Shell]):
    """The shell calls `inject` at the point, in the actor; it may raise, or not return."""

    word: str  # in schedules
    sentence: str  # shown to users
    _: KW_ONLY
    applies: Callable[[str, str], bool] = anywhere  # (actor, point)
    inject: Callable[[Shell], None]
    needs: str = ""  # the member of the contract without which the kind is never injected
    # Only a simulated engine can do it: the process shell injects it at the coordinator's points and around calls,
    # Spark nowhere.
    is_virtual: bool = False
    is_power_loss: bool = False
    suspends: bool = False  # an attempt that is a process is suspended by SIGSTOP while `inject` runs outside of it


def service_outage(word: str, sentence: str, *, how: str) -> FaultKind[VirtualShell]:
    """The external system, or the network to it, is broken in this way, wherever that can affect a sink."""
    return FaultKind(
        word,
        sentence,
        applies=lambda actor, point: point in COMMIT_WINDOW,
        inject=lambda shell: shell.break_service(how),
        needs=SERVICES,
        suspends=True,
    )


def host_fault(word: str, sentence: str, *, anywhere: bool) -> FaultKind[ShellOnHosts]:
    """The host of an attempt fails in this way; `anywhere`: at points of the coordinator, too."""
    return FaultKind(
        word,
        sentence,
        applies=lambda actor, point: anywhere or "[" in actor,
        inject=lambda shell: shell.strike_host(word),
        needs=HOSTS,
    )


def power_loss(word: str, sentence: str, *, hook: str) -> FaultKind[VirtualShell]:
    """Every process dies, and the contract's method `hook` drops from the target what was not forced to disk. Where it
    has none, and system calls are watched, files are put back (chaos/system_calls/unforced_changes.py).
    """

    def inject(shell: VirtualShell) -> None:
        shell.lose_power(hook)

    return FaultKind(word, sentence, inject=inject, needs=hook, is_virtual=True, is_power_loss=True)


def message_fault(word: str, sentence: str, *messages: str) -> FaultKind[FaultableShell]:
    """A fault of one of these messages: "end_txn.request", or "reply" for all replies."""
    return FaultKind(
        word,
        sentence,
        applies=lambda actor, point: actor == BROKER and any(f".{point}".endswith(f".{each}") for each in messages),
        inject=_by_the_proxy,
        needs=SERVICES,
    )


def _by_the_proxy(shell: FaultableShell) -> None:
    """No shell injects it: the proxy does (message_proxy.py)."""
