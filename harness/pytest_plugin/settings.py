"""With which options pytest certifies a sink: those of the command line, then of certification(), then of the
configuration file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from sinkproof.certifier.budget_text import LEAST, seconds_in
from sinkproof.certifier.certify import LEAST_SECONDS, SHELLS, WITHOUT_SPARK, Options

BUDGET_SECONDS: Final = 20.0  # per shell; a small sink needs less for its whole bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The arguments of certification(). None: not given."""

    shells: Sequence[str] | None = None
    budget_seconds: float | None = None
    strict: bool | None = None
    canaries: str = "once"


def options_for(config: pytest.Config, asked: Asked) -> Options:
    fresh = asked.canaries == "always" or bool(config.getoption("--sinkproof-fresh", default=False))
    options = Options(
        shells=_shells(config, asked),
        canaries=asked.canaries != "never",
        strict=_strict(config, asked),
        store=_cache_folder(config),
        fresh=fresh,
    )
    return _with_budget(options, config, asked)


def check_settings(config: pytest.Config) -> None:
    """Raises pytest.UsageError for what cannot be used on the command line or in the configuration file."""
    options_for(config, Asked())


def certificates_folder(config: pytest.Config) -> Path:
    return config.rootpath / (_on_command_line(config, "certificates") or _in_file(config, "certificates"))


def _shells(config: pytest.Config, asked: Asked) -> Sequence[str]:
    named = _on_command_line(config, "shells")
    if not named and asked.shells is not None:
        return tuple(asked.shells)
    names = tuple(name for name in (named or _in_file(config, "shells")).replace(",", " ").split())
    if unknown := [name for name in names if name not in SHELLS]:
        raise pytest.UsageError(f"sinkproof: there is no shell {unknown[0]!r}. Name some of {', '.join(SHELLS)}")
    return names or WITHOUT_SPARK


def _strict(config: pytest.Config, asked: Asked) -> bool:
    if config.getoption("--sinkproof-strict", default=False):
        return True
    return bool(config.getini("sinkproof_strict")) if asked.strict is None else asked.strict


def _with_budget(options: Options, config: pytest.Config, asked: Asked) -> Options:
    """A budget of the command line or the configuration file is a limit, as `certify --budget` is."""
    text = _on_command_line(config, "budget")
    if not text and asked.budget_seconds is not None:
        return replace(options, budget_seconds=asked.budget_seconds)
    text = text or _in_file(config, "budget")
    if not text:
        return replace(options, budget_seconds=BUDGET_SECONDS)
    if text == LEAST:
        return replace(options, budget_seconds=LEAST_SECONDS)
    try:
        return replace(options, budget_seconds=seconds_in(text), budget_holds=True)
    except ValueError as error:
        raise pytest.UsageError(f"sinkproof: the budget {error}") from error


def _cache_folder(config: pytest.Config) -> Path | None:
    """None if pytest has no cache (-p no:cacheprovider)."""
    cache: Any = getattr(config, "cache", None)
    return None if cache is None else Path(cache.mkdir("sinkproof"))


def _on_command_line(config: pytest.Config, name: str) -> str:
    return str(config.getoption(f"--sinkproof-{name}", default=None) or "")


def _in_file(config: pytest.Config, name: str) -> str:
    return str(config.getini(f"sinkproof_{name}"))
