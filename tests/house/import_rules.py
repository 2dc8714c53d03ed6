"""Which file may import what: the layers, foreign libraries, and no circles.

Imports inside functions count, because they hide an arrow without removing it. Imports for type checking only count as
arrows between layers, but not as parts of a circle.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Final

from .house_rules import PACKAGES, Offences, ProjectOffences, Source, is_product, project_rule, rule

FLOORS: Final = (  # a sub-package imports lower floors only; those on one floor do not import each other
    ("chaos/kafka_client",),
    ("chaos", "sink_adapters", "reports"),
    ("reference_engine",),
    ("harness/subject", "harness/workload"),
    ("harness/judging", "harness/pipeline"),
    ("harness/execution",),
    ("harness/generators", "harness/table"),
    ("harness/exploration", "harness/explain"),
    ("harness/strategies.py",),
    ("harness/campaign",),
    ("harness/canaries", "harness/foreach_batch"),
    ("harness/certifier",),
    ("harness/cli", "harness/pytest_plugin"),
    ("harness/__init__.py", "harness/__main__.py"),
)
FLOORS_INSIDE: Final = (  # the same, within one folder; what is not listed there is bound by the circles only
    (
        ("reference_engine/dataflow",),
        ("reference_engine/checkpointing", "reference_engine/inputs"),
        ("reference_engine/shells",),
        ("reference_engine/shells/simulated", "reference_engine/shells/process", "reference_engine/shells/spark"),
    ),
    (
        ("sink_adapters/protocol.py",),
        ("sink_adapters/strategies",),
        ("sink_adapters/files",),
        ("sink_adapters/memory", "sink_adapters/kafka", "sink_adapters/cassandra"),
        ("sink_adapters/registry.py",),
    ),
    (
        ("chaos/points.py", "chaos/schedule.py", "chaos/clock.py"),
        ("chaos/shared", "chaos/processes"),
        ("chaos/messages", "chaos/requests"),
        ("chaos/system_calls",),
        ("chaos/faults",),
        ("chaos/services",),
    ),
)
NARROW: Final = {  # (folder, what it imports from): the only part of it
    ("reference_engine", "sink_adapters"): "sink_adapters/protocol.py",
    ("reference_engine", "reports"): "",
}
LIBRARY_HOMES: Final = {  # the files that may import a foreign library
    "cassandra": ("sink_adapters/cassandra/cassandra_client.py",),
    "click": ("harness/cli/*.py",),
    "confluent_kafka": ("reference_engine/inputs/kafka_*.py", "sink_adapters/kafka/*.py"),
    "javaproperties": ("chaos/kafka_client/client_settings.py",),
    "kafka": ("chaos/kafka_client/messages.py",),
    "hypothesis": ("harness/campaign/random_soak.py", "harness/strategies.py"),
    **dict.fromkeys(("jinja2", "markupsafe"), ("reports/page.py",)),
    "msgspec": (
        *("chaos/shared/event_log.py", "harness/certifier/result_store.py"),
        *(
            "reference_engine/checkpointing/checkpoint_encoding_and_digests.py",
            "reference_engine/dataflow/operators.py",
        ),
        *("reports/certificate_file.py", "reports/json_files.py"),
        *("sink_adapters/files/*.py", "sink_adapters/strategies/snapshot_bytes.py"),
    ),
    "numpy": (
        "reference_engine/dataflow/columns.py",
        "reference_engine/shells/spark/python_worker_daemon.py",
        "sink_adapters/files/column_lines.py",
    ),
    "prometheus_client": ("harness/pipeline/pipeline_metrics.py",),
    "pyarrow": ("reference_engine/*.py", "sink_adapters/*.py", "harness/execution/spark_*.py"),
    "pyspark": ("reference_engine/shells/spark/*.py", "harness/execution/spark_*.py", "harness/foreach_batch/*.py"),
    "pytest": ("harness/pytest_plugin/*.py",),
    "xxhash": ("reference_engine/checkpointing/checkpoint_encoding_and_digests.py",),
    "toxiproxy": ("chaos/services/toxiproxy/toxic_network.py",),
    **dict.fromkeys(("docker", "testcontainers"), ("chaos/services/container_nodes.py",)),
    "time_machine": ("chaos/moved_clock.py",),
    "rich": ("reports/terminal.py", "reports/progress.py", "harness/explain/*.py"),
}
Imports = Iterator[tuple[int, str]]  # (line, full name)


def imports(source: Source, *, nodes: Iterable[ast.AST] | None = None) -> Imports:
    for node in source.nodes if nodes is None else nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def path_of(name: str) -> str:
    """`sinkproof.chaos.points` is `chaos/points`, `sinkproof.subject` is `harness/subject`; a public name such as
    `sinkproof.certify` comes from `harness/__init__`, which loads all the rest.
    """
    folder, *rest = name.split(".")[1:] or ["__init__"]
    path = "/".join((folder, *rest) if folder in PACKAGES else ("harness", folder, *rest))
    return path if rest or floor_of(path, FLOORS) else "harness/__init__"


def belongs(path: str, part: str) -> bool:
    """Whether a file, with `.py` or as the name of an import, lies in a folder or is a file of the floors."""
    return f"{path.removesuffix('.py')}/".startswith(f"{part.removesuffix('.py')}/")


def floor_of(path: str, floors: Sequence[Sequence[str]]) -> tuple[int, str] | None:
    """(number of the floor, sub-package), the longest that fits."""
    found = [(len(part), number, part) for number, parts in enumerate(floors) for part in parts if belongs(path, part)]
    return max(found)[1:] if found else None


def goes_up(importer: str, imported: str, floors: Sequence[Sequence[str]]) -> bool:
    here, there = floor_of(importer, floors), floor_of(imported, floors)
    if here is None or there is None or here == there:
        return False
    return there[0] >= here[0]


@rule(
    "A lower layer imports nothing of a higher one, nor of its neighbours (FLOORS, ARCHITECTURE.md): hand it in as a"
    " parameter. Imports are absolute.",
    guilty="def f():\n    from sinkproof.subject.claims import Claim",
    files="[!t]*.py",
)
def imports_a_higher_layer(source: Source) -> Offences:
    for line, name in imports(source):
        if name.startswith(".") or name.split(".")[0] in PACKAGES:
            yield line, f"imports {name}: write it as sinkproof..."
        if name.split(".")[0] != "sinkproof":
            continue
        imported = path_of(name)
        inside = any(goes_up(source.path, imported, floors) for floors in FLOORS_INSIDE)
        if inside or goes_up(source.path, imported, FLOORS) or is_too_wide(source.path, imported):
            yield line, f"imports {name}"


def is_too_wide(importer: str, imported: str) -> bool:
    return any(
        belongs(importer, folder) and belongs(imported, other) and not (part and belongs(imported, part))
        for (folder, other), part in NARROW.items()
    )


@rule(
    "Give the sub-package a place in FLOORS.",
    guilty="from sinkproof.nowhere import x",
    files="[!t]*.py",
)
def has_no_layer(source: Source) -> Offences:
    if floor_of(source.path, FLOORS) is None:
        yield 1, source.path
    names = [(line, name) for line, name in imports(source) if name.startswith("sinkproof.")]
    at_the_top = [(line, name) for line, name in names if not floor_of(path_of(name), FLOORS)]
    yield from ((line, name) for line, name in at_the_top if name.count(".") > 1)


@rule(
    "The oracle knows only the ledger and the observation.",
    guilty="from sinkproof.sink_adapters.protocol import Row",
    files="harness/judging/oracle.py",
)
def oracle_knows_too_much(source: Source) -> Offences:
    return [
        (line, name)
        for line, name in imports(source)
        if re.match(r"sinkproof\.(reference_engine|sink_adapters)\b", name)
    ]


@rule("Import it where LIBRARY_HOMES says, or add the file there.", guilty="import rich", files="[!t]*.py")
def foreign_library(source: Source) -> Offences:
    for line, name in imports(source):
        library = name.split(".")[0]
        lawful = library in ("", "sinkproof", *PACKAGES) or library in sys.stdlib_module_names
        if not lawful and not any(fnmatch(source.path, home) for home in LIBRARY_HOMES.get(library, ())):
            yield line, f"imports {library}"


@project_rule(
    "Cut the circle: move what both need into a file below them, or hand it in as a parameter.",
    guilty={
        "chaos/a.py": "from sinkproof.chaos import b",
        "chaos/b.py": "def f():\n    from sinkproof.chaos.a import x",
    },
)
def circle_of_files(sources: Sequence[Source]) -> ProjectOffences:
    product = [each for each in sources if is_product(each.path)]
    files = {each.path for each in product}
    graph = {each.path: imported_files(each, files) for each in product}
    for members in circles(graph):
        yield members[0], 1, f"a circle of {len(members)} files: {', '.join(members)}"


def imported_files(source: Source, files: set[str]) -> set[str]:
    typing_only = {
        id(inner)
        for node in source.nodes
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for step in node.body
        for inner in ast.walk(step)
    }
    nodes = [node for node in source.nodes if id(node) not in typing_only]
    names = {name for _, name in imports(source, nodes=nodes) if name.split(".")[0] == "sinkproof"}
    return {file for name in names if (file := file_of(name, files))} - {source.path}


def file_of(name: str, files: set[str]) -> str | None:
    """The file that an import of this name reads: the module itself, or the one that holds the name."""
    path = PurePosixPath(path_of(name))
    candidates = [text for each in (path, path.parent) for text in (f"{each}.py", f"{each}/__init__.py")]
    return next((candidate for candidate in candidates if candidate in files), None)


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Files that reach each other, in groups."""
    reached = {path: reachable(path, graph) for path in graph}
    groups = {
        tuple(sorted(other for other in reached[path] if path in reached[other]))
        for path in graph
        if path in reached[path]
    }
    return sorted(map(list, groups))


def reachable(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found
