"""Which files are a user's own code, wherever they lie."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sinkproof.sink_adapters.protocol import REQUIRED_CALLS
from sinkproof.subject.contract import ContractError
from sinkproof.subject.loading import load
from sinkproof.subject.source_files import files_of, own_code, reachable_in
from sinkproof.subject.user_code import native_modules

SINK = """
class Sink:
    def open(self, context): ...
    def write(self, batch): ...
    def snapshot(self, checkpoint_id): return b""
    def notify_complete(self, checkpoint_id): ...
"""
CONTRACT = """
from sinkproof import Claim
{imports}

class Of:
    claims = Claim.EXACTLY_ONCE
    {more}
    def sink(self, scratch):
        return {made}
    def committed(self, scratch):
        return []
"""


class Project:
    """A folder with the files of a user, and another one in which packages are installed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.installed = folder, folder / "lib" / "site-packages"
        self.installed.mkdir(parents=True)

    def write(self, files: Mapping[str, str], *, into: Path | None = None) -> None:
        """Name without `.py` -> text."""
        for name, text in files.items():
            path = (into or self.folder) / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def install(self, distribution: str, files: Mapping[str, str]) -> None:
        """With the metadata by which a package manager knows which distribution a file came with."""
        self.write(files, into=self.installed)
        record = [f"{name}.py,," for name in files]
        metadata = self.installed / f"{distribution.replace('-', '_')}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (metadata / "RECORD").write_text("\n".join(record))

    def certified(self, made: str, *, imports: str, more: str = "") -> Any:
        path = self.folder / f"contract_of_{self.folder.name}.py"
        path.write_text(CONTRACT.format(made=made, imports=imports, more=more))
        return load(f"{path}:Of")

    def names(self, made: str, *, imports: str, more: str = "") -> set[str]:
        """The names of all files with points at lines, but the contract's."""
        contract = self.certified(made, imports=imports, more=more)
        return {*files_of(contract.given, contract.sink(None)).values()} - {f"contract_of_{self.folder.name}.py"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    made = Project(tmp_path)
    before = {*sys.modules}
    monkeypatch.syspath_prepend(made.installed)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield made
    for name in {*sys.modules} - before:
        del sys.modules[name]


def test_a_sink_class_from_an_installed_package_is_struck_with_all_of_its_distribution(project: Project) -> None:
    project.install(
        "shop-sinks",
        {
            "shop/__init__": "",
            "shop/sinks": "from shop import writing\n" + SINK,
            "shop/writing": "def write():\n    import shop_core\n",
            "shop_core": "def commit(): ...",
        },
    )
    assert {"__init__.py", "sinks.py", "writing.py", "shop_core.py"} == project.names(
        "shop.sinks.Sink()", imports="import shop.sinks"
    )


def test_an_installed_package_without_metadata_is_struck_whole(project: Project) -> None:
    project.write({"bare/__init__": "from bare.inner import Sink", "bare/inner": SINK}, into=project.installed)
    assert {"__init__.py", "inner.py"} == project.names("bare.Sink()", imports="import bare")


def test_libraries_that_an_installed_sink_uses_are_not_struck_unless_they_are_named(project: Project) -> None:
    project.install("client", {"client": "def send(): ..."})
    project.install("sinks-on-client", {"on_client": "import client\n" + SINK})
    assert {"on_client.py"} == project.names("on_client.Sink()", imports="import on_client")


def test_packages_adds_a_library_and_not_struck_takes_modules_out(project: Project) -> None:
    project.install("other-client", {"other_client/__init__": "", "other_client/wire": "def send(): ..."})
    project.write({"mine": "import noise\n" + SINK, "noise": "def log(): ..."})
    more = 'packages = ["other_client"]\n    not_struck = ["noise"]'
    assert {"__init__.py", "wire.py", "mine.py"} == project.names("mine.Sink()", imports="import mine", more=more)


def test_a_package_that_cannot_be_found_is_refused_with_its_name(project: Project) -> None:
    project.write({"alone": SINK})
    contract = project.certified("alone.Sink()", imports="import alone", more='packages = ["no_such"]')
    with pytest.raises(ContractError, match="no_such"):
        files_of(contract.given, contract.sink(None))


def test_a_base_class_from_another_distribution_adds_its_own_file_only(project: Project) -> None:
    project.install("framework", {"framework/__init__": "", "framework/base": SINK, "framework/unrelated": "x = 1"})
    project.write({"derived": "from framework.base import Sink\nclass Mine(Sink): ..."})
    assert {"derived.py", "base.py"} == project.names("derived.Mine()", imports="import derived")


def test_modules_and_packages_beside_a_file_are_struck_before_they_are_imported(project: Project) -> None:
    late = "class Sink:\n    def write(self, batch):\n        from helpers.inner import put\n        import single\n"
    late += SINK.replace("class Sink:", "")
    project.write({"lazy": late, "helpers/__init__": "", "helpers/inner": "", "single": ""})
    assert {"lazy.py", "__init__.py", "inner.py", "single.py"} == project.names("lazy.Sink()", imports="import lazy")
    assert "helpers.inner" not in sys.modules


def test_relative_imports_are_followed(project: Project) -> None:
    sink = "from ..store import put\n" + SINK
    project.write({"app/__init__": "", "app/sinks/out": sink, "app/store": "def put(): ..."})
    assert {"__init__.py", "sinks/out.py", "store.py"} == project.names(
        "app.sinks.out.Sink()", imports="import app.sinks.out"
    )


def test_a_target_inside_one_of_our_strategies_is_what_the_user_gave(project: Project) -> None:
    project.install("appender", {"appender": "class Target:\n    def append(self, batch): ..."})
    contract = project.certified("appender.Target()", imports="import appender")
    code = own_code(contract.given, contract.sink(None))
    assert {"appender.Target": ("appender.py",)} == code.given
    assert "Target" in code.names


def test_the_standard_library_is_never_struck(project: Project) -> None:
    project.write({"plain": "import json\nimport logging.handlers\n" + SINK})
    assert {"plain.py"} == project.names("plain.Sink()", imports="import plain")


def test_a_class_without_python_source_is_given_without_a_file(project: Project) -> None:
    project.write({"hidden": "Sink = type('Sink', (), {'append': print, '__module__': 'made_elsewhere'})"})
    contract = project.certified("hidden.Sink()", imports="import hidden")
    assert {"made_elsewhere.Sink": ()} == own_code(contract.given, contract.sink(None)).given


def test_a_class_without_code_of_its_own_has_the_files_of_its_bases_ours_included(project: Project) -> None:
    project.write(
        {"thin": "from sinkproof.sink_adapters.strategies.plain import PlainSink\nclass Mine(PlainSink): ..."}
    )
    contract = project.certified("thin.Mine(None)", imports="import thin")
    code = own_code(contract.given, contract.sink(None))
    assert [("thin.py", "strategies/plain.py")] == [files[:2] for files in code.given.values()]
    assert {f"contract_of_{project.folder.name}.py"} == {
        each.point[5:].partition(":")[0] for each in reachable_in(code)
    }


@pytest.mark.parametrize(("calls", "reached"), [(REQUIRED_CALLS, set()), ((), {"append"})])
def test_strategies_call_targets_and_not_sinks(calls: Sequence[str], reached: set[str], project: Project) -> None:
    methods = [f"    def {name}(self, *given):\n        self.last = '{name}'\n" for name in ("append", *calls)]
    project.write({"both": "class Both:\n" + "".join(methods)})
    contract = project.certified("both.Both()", imports="import both")
    numbers = {each.point for each in reachable_in(own_code(contract.given, contract.sink(None)))}
    assert reached == ({"append"} if "line(both.py:3)" in numbers else set())
    assert len(numbers) == 1 + len(reached or calls)


@pytest.mark.parametrize(
    ("imports", "native"),
    [
        ("import json, zlib, decimal", []),
        ("import pyarrow.parquet as pq\nfrom numpy import array", ["numpy", "pyarrow"]),
        ("def write():\n    import sqlite3", ["sqlite3"]),
    ],
)
def test_native_modules_that_a_file_imports_are_found(imports: str, native: list[str], tmp_path: Path) -> None:
    import numpy  # noqa: F401
    import pyarrow  # noqa: F401

    (tmp_path / "client.py").write_text(imports)
    assert native == native_modules([tmp_path / "client.py"])


def test_a_file_of_a_user_may_have_the_name_of_a_standard_module(project: Project) -> None:
    """As `queue.py` would have; these two are rarely imported by anything else."""
    project.write({"sndhdr": SINK + "def late():\n    import imghdr\n", "imghdr": ""})
    contract = project.certified("sndhdr.Sink()", imports="import sndhdr")
    code = own_code(contract.given, contract.sink(None))
    assert {"sndhdr.py", "imghdr.py", f"contract_of_{project.folder.name}.py"} == {*code.files.values()}
    assert {"sndhdr.Sink": ("sndhdr.py",)} == code.given
    assert frozenset({"Sink"}) == code.names


def test_what_a_user_takes_from_the_standard_library_is_not_the_users(project: Project) -> None:
    project.write({"of_user": SINK + "import json, queue, colorsys"})
    assert {"of_user.py"} == project.names("of_user.Sink()", imports="import of_user")
