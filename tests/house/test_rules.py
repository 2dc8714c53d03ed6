"""The house rules find each kind of offence, and leave alone what only looks like one."""

from __future__ import annotations

from typing import Final

import pytest

from . import code_rules, import_rules, name_rules, word_rules
from .house_rules import RULES, source

Files = dict[str, str]  # path: text
ACTOR: Final = "wh" + "o"  # in halves, because the rules read this file, too
ORACLE: Final = "from sinkproof.judging.oracle import judge"

GUILTY: Final[list[tuple[str, Files]]] = [
    ("imports_a_higher_layer", {"harness/workload/a.py": ORACLE}),
    ("imports_a_higher_layer", {"harness/workload/a.py": f"def f():\n    {ORACLE}"}),
    ("imports_a_higher_layer", {"harness/workload/a.py": f"if TYPE_CHECKING:\n    {ORACLE}"}),
    ("imports_a_higher_layer", {"harness/workload/a.py": "import sinkproof.judging.oracle"}),
    ("imports_a_higher_layer", {"harness/workload/a.py": "from sinkproof.subject.claims import Claim"}),
    ("imports_a_higher_layer", {"harness/workload/a.py": "from .jobs import JOBS"}),
    ("imports_a_higher_layer", {"harness/workload/a.py": "from chaos import points"}),
    ("imports_a_higher_layer", {"harness/campaign/a.py": "from sinkproof import certify"}),
    ("imports_a_higher_layer", {"chaos/a.py": "from sinkproof.reports import document"}),
    ("imports_a_higher_layer", {"reference_engine/a.py": "from sinkproof.sink_adapters.registry import PAIRS"}),
    ("imports_a_higher_layer", {"reference_engine/a.py": "from sinkproof.reports import document"}),
    ("imports_a_higher_layer", {"reference_engine/dataflow/a.py": "import sinkproof.reference_engine.shells.job"}),
    ("imports_a_higher_layer", {"reference_engine/shells/job.py": "import sinkproof.reference_engine.shells.spark.a"}),
    ("imports_a_higher_layer", {"sink_adapters/strategies/a.py": "import sinkproof.sink_adapters.files.b"}),
    ("imports_a_higher_layer", {"sink_adapters/kafka/a.py": "import sinkproof.sink_adapters.cassandra.b"}),
    ("has_no_layer", {"harness/kitchen/a.py": ""}),
    ("circle_of_files", {f"chaos/{a}.py": f"import sinkproof.chaos.{b}" for a, b in ("ab", "bc", "ca")}),
    ("repeated_class_name", {"chaos/a.py": "class _Box: ...", "reports/b.py": "class A:\n    class _Box: ..."}),
    ("package_docstring", {"harness/judging/__init__.py": '"""Imports nothing.' + "\nAnd more." * 9 + '\n"""'}),
    ("path_that_leads_nowhere", {"README.md": "as in `harness/" + "kitchen.py`"}),
    ("actor_without_a_name", {"README.md": f"{ACTOR.title()} reads this."}),
    ("actor_without_a_name", {"chaos/a.py": f"{ACTOR}_is_dead = 1"}),
    ("actor_without_a_name", {"chaos/a.py": "NO" + "BODY_KNOWS = 1"}),
    ("actor_without_a_name", {"tests/test_a.py": "def test_every" + "one_is_there(): ..."}),
    ("actor_without_a_name", {"reports/page.html.j2": "<p>no" + "\n  one</p>"}),
    ("actor_without_a_name", {f"tests/test_{ACTOR}_dies.py": ""}),
]
INNOCENT: Final[list[tuple[str, Files]]] = [
    ("imports_a_higher_layer", {"harness/judging/a.py": "from sinkproof.workload.ledger import Ledger"}),
    ("imports_a_higher_layer", {"harness/judging/a.py": "from sinkproof.judging.oracle import judge"}),
    ("imports_a_higher_layer", {"reference_engine/a.py": "from sinkproof.sink_adapters.protocol import Row"}),
    ("imports_a_higher_layer", {"reference_engine/shells/spark/a.py": "import sinkproof.reference_engine.shells.job"}),
    ("imports_a_higher_layer", {"harness/strategies.py": "from sinkproof.exploration.shrinking import smallest"}),
    ("imports_a_higher_layer", {"harness/__init__.py": "from sinkproof.certifier.certify import certify"}),
    ("circle_of_files", {
        "chaos/a.py": "import sinkproof.chaos.b",
        "chaos/b.py": "if TYPE_CHECKING:\n    import sinkproof.chaos.a",
    }),
    ("repeated_class_name", {"chaos/a.py": "class Box: ...", "chaos/b.py": "def f():\n    class Box: ..."}),
    ("repeated_class_name", {"chaos/a.py": "class A:\n    class make: ...\nclass B:\n    class make: ..."}),
    ("repeated_file_name", {"harness/canaries/masked.py": "", "sink_adapters/strategies/masked.py": ""}),
    ("crowded_folder", {f"chaos/faults/kind{number}.py": "" for number in range(30)}),
    ("actor_without_a_name", {"reports/a.py": 'key = "' + ACTOR + 'se"'}),
    ("actor_without_a_name", {"README.md": "the whole job; any one of them; every ones' complement"}),
    ("actor_without_a_name", {"LICENSE": ACTOR}),
]  # fmt: skip


def offences(rule: str, files: Files) -> list[str]:
    return RULES[rule].offences([source(path, text) for path, text in files.items()])


@pytest.mark.parametrize(("rule", "files"), GUILTY)
def test_the_rule_finds_the_offence(rule: str, files: Files) -> None:
    assert [] != offences(rule, files)


@pytest.mark.parametrize(("rule", "files"), INNOCENT)
def test_the_rule_leaves_the_innocent_alone(rule: str, files: Files) -> None:
    assert [] == offences(rule, files)


def test_every_file_of_rules_is_in_use() -> None:
    names = {module.__name__ for module in (code_rules, import_rules, name_rules, word_rules)}
    assert names == {rule.find.__module__ for rule in RULES.values()}
