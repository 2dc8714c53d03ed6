"""What a fault may ask of the shell it strikes in."""

from __future__ import annotations

from typing import NoReturn, Protocol


class Killed(BaseException):
    """Unwinds the stack of somebody dead. Not an Exception: a sink's `except Exception` must not revive it."""


class Shell(Protocol):
    """What every shell can do."""

    def kill_actor(self) -> NoReturn:
        """The acting attempt (or coordinator) dies here; the others notice after a while."""

    def kill_worker(self) -> NoReturn:
        """What hosts the acting attempt dies, and the attempt with it; where there is no worker, the attempt alone."""

    def kill_executor(self) -> NoReturn:
        """What hosts the workers dies, and all attempts in them; where there is no executor, the attempt alone."""

    def kill_job(self) -> NoReturn:
        """Everybody dies here; only what is durable remains, and a new job starts from it."""

    def stop_actor(self) -> None:
        """The acting attempt stops here, is taken for dead and replaced; returns when it wakes up as a zombie."""

    def pause_actor(self) -> None:
        """The acting attempt stops here and goes on a moment later; nobody takes it for dead."""

    def lose_message(self) -> None:
        """The message that is about to be sent never arrives."""

    def decline_vote(self) -> None:
        """The vote that is about to be sent becomes a refusal."""


class VirtualShell(Shell, Protocol):
    """What only a shell can do whose engine is simulated: its time and its coordinator are what it says they are."""

    def delay_message(self) -> None:
        """The message that is about to be sent arrives later, when newer ones have overtaken it."""

    def repeat_message(self) -> None:
        """The message that is about to be sent arrives now, and once more later."""

    def land_later(self) -> None:
        """The acting attempt stops before an effect and is replaced; then the effect happens, and nothing after it."""

    def fail_from_here(self) -> NoReturn:
        """The call to the target fails, and so does each further one of this attempt at this point."""

    def depose(self) -> None:
        """The coordinator stops here, another one is elected, and then the old one goes on with what it knew."""

    def cancel_job(self) -> None:
        """Every attempt is closed, whatever it is at; when all are, the same job goes on from its last checkpoint."""

    def drain_job(self) -> None:
        """The sources stop reading; when a final checkpoint has settled all, the same job goes on from it."""

    def rewind_job(self, *, to_nothing: bool) -> NoReturn:
        """As kill_job, but what is restored is the complete checkpoint before the last one, or nothing at all."""

    def strike_target(self, hook: str) -> None:
        """Something happens to the target itself: the contract's method of that name is called."""

    def lose_power(self, hook: str) -> NoReturn:
        """As kill_job, and the target loses what was not forced to disk, as far as the contract's method says."""

    def break_service(self, how: str) -> None:
        """The external systems that the subject uses are told to "kill", "stop" or "pause", and then to come back."""

    def pass_time(self) -> None:
        """The clock jumps beyond the target's own time limit."""
