"""What a fault may ask of the shell it strikes in."""

from __future__ import annotations

from typing import NoReturn, Protocol


class Killed(BaseException):
    """Unwinds the stack of somebody dead. Not an Exception: a sink's `except Exception` must not revive it."""


class Shell(Protocol):
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

    def lose_message(self) -> None:
        """The message that is about to be sent never arrives."""

    def decline_vote(self) -> None:
        """The vote that is about to be sent becomes a refusal."""
