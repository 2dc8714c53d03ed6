"""sinkproof certifies that a sink delivers every row exactly once, by crashing it everywhere it can crash.

The names below are the whole public surface; each is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "sinkproof":
    raise ImportError(f"import this package as sinkproof, not as {__name__}")

if TYPE_CHECKING:
    from sinkproof.certifier.certify import Options, certify
    from sinkproof.certifier.replay import replay
    from sinkproof.judging.verdict_and_exit_codes import Verdict
    from sinkproof.pytest_plugin.classes import certification
    from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Context, Fenced, Row, Sink, TransactionLost
    from sinkproof.sink_adapters.strategies.idempotent import IdempotentSink
    from sinkproof.sink_adapters.strategies.masked import MaskedSink
    from sinkproof.sink_adapters.strategies.plain import PlainSink
    from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink
    from sinkproof.sink_adapters.strategies.write_ahead import WriteAheadSink
    from sinkproof.subject.claims import Claim, Grade
    from sinkproof.subject.contract import ContractError
    from sinkproof.subject.scratch import Scratch

_HOMES = {
    "Batch": "sink_adapters.protocol",
    "Claim": "subject.claims",
    "CommitOutcome": "sink_adapters.protocol",
    "Context": "sink_adapters.protocol",
    "ContractError": "subject.contract",
    "Fenced": "sink_adapters.protocol",
    "Grade": "subject.claims",
    "IdempotentSink": "sink_adapters.strategies.idempotent",
    "MaskedSink": "sink_adapters.strategies.masked",
    "Options": "certifier.certify",
    "PlainSink": "sink_adapters.strategies.plain",
    "Row": "sink_adapters.protocol",
    "Scratch": "subject.scratch",
    "Sink": "sink_adapters.protocol",
    "TransactionLost": "sink_adapters.protocol",
    "TwoPhaseCommitSink": "sink_adapters.strategies.two_phase",
    "Verdict": "judging.verdict_and_exit_codes",
    "WriteAheadSink": "sink_adapters.strategies.write_ahead",
    "certification": "pytest_plugin.classes",
    "certify": "certifier.certify",
    "replay": "certifier.replay",
}

__all__ = [
    "Batch",
    "Claim",
    "CommitOutcome",
    "Context",
    "ContractError",
    "Fenced",
    "Grade",
    "IdempotentSink",
    "MaskedSink",
    "Options",
    "PlainSink",
    "Row",
    "Scratch",
    "Sink",
    "TransactionLost",
    "TwoPhaseCommitSink",
    "Verdict",
    "WriteAheadSink",
    "certification",
    "certify",
    "replay",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sinkproof' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"sinkproof.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
