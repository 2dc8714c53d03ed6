"""The operations that a shell offers to the fault kinds: what a fault may do to the attempt, the job or the target."""

from __future__ import annotations

from typing import NoReturn, Protocol


class Killed(BaseException):
    """Unwinds the stack of a killed actor. Not an Exception: a sink's `except Exception` must not revive it."""


class FaultableShell(Protocol):
    """Operations of every shell. The *actor* is the attempt, or the coordinator, that has reached the point."""

    def kill_actor(self) -> NoReturn:
        """The actor dies here; the failure is detected after a while."""

    def kill_worker(self) -> NoReturn:
        """The worker that hosts the attempt dies with it; where there is no worker, the attempt alone."""

    def kill_executor(self) -> NoReturn:
        """The executor dies with all its workers and attempts; where there is no executor, the attempt alone."""

    def kill_job(self) -> NoReturn:
        """Every process dies here; only durable state remains, and a new job starts from it."""

    def stop_actor(self) -> None:
        """The attempt is suspended here, declared dead and replaced; returns when it resumes as a zombie."""

    def pause_actor(self) -> None:
        """The attempt is suspended here and resumes a moment later; it is not declared dead."""

    def lose_message(self) -> None:
        """The message that is about to be sent never arrives."""

    def decline_vote(self) -> None:
        """The vote that is about to be sent becomes a refusal."""


class ShellOnHosts(FaultableShell, Protocol):
    """Operations of a shell that runs attempts on several hosts."""

    def strike_host(self, how: str) -> None:
        """The host of this attempt dies, is cut off, has a slow link; or all that are cut off are healed."""


class VirtualShell(FaultableShell, Protocol):
    """Operations of a shell with a simulated engine, which controls time and the coordinator."""

    def hang_actor(self) -> NoReturn:
        """The attempt is suspended here, declared dead and replaced; it dies when it would resume."""

    def terminate_actor(self, *, calls: int) -> None:
        """The attempt's process gets SIGTERM, and dies; returns if it is to answer so many calls before. Where there is
        no such process, the attempt dies.
        """

    def delay_message(self) -> None:
        """The message that is about to be sent arrives after newer ones."""

    def repeat_message(self) -> None:
        """The message that is about to be sent arrives now, and once more later."""

    def land_later(self) -> None:
        """The attempt stops before an effect and is replaced; then the effect happens, and nothing after it."""

    def fail_from_here(self) -> NoReturn:
        """The call to the target fails, and so does each further call of this attempt at this point."""

    def depose(self) -> None:
        """The coordinator is suspended, another one is elected, and then the old one resumes with its old state."""

    def cancel_job(self) -> None:
        """Every attempt is closed at once; when all are, the same job goes on from its last checkpoint."""

    def drain_job(self) -> None:
        """The sources stop reading; when a final checkpoint has settled all, the same job goes on from it."""

    def rewind_job(self, *, to_nothing: bool) -> NoReturn:
        """As kill_job, but the job is restored from the complete checkpoint before the last one, or from none."""

    def strike_target(self, hook: str) -> None:
        """Calls the contract's method `hook`, which changes the target itself."""

    def lose_power(self, hook: str) -> NoReturn:
        """As kill_job, and the contract's method `hook` drops from the target what was not forced to disk."""

    def break_service(self, how: str) -> None:
        """Applies "kill", "stop", "pause" or a toxic to the external systems of the subject, then restores them."""

    def move_clocks(self, seconds: float) -> None:
        """The clocks of all attempts jump; negative: back. The target's own does not."""

    def pass_time(self) -> None:
        """The clock jumps beyond the target's own time limit."""
