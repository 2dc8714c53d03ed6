"""A subject is found as users name it, and an error says what was probably meant."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkproof.chaos.standard_library import is_standard
from sinkproof.subject.contract import ContractError
from sinkproof.subject.loading import found_anywhere, load

CONTRACT = """
class {name}:
    claims = "NO_LOSS"
    def sink(self, scratch): ...
    def committed(self, scratch): ...
"""

WHAT_A_LIBRARY_FINDS = """
from importlib.machinery import PathFinder
FOUND = PathFinder.find_spec("{name}").origin
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory. What was imported from it is forgotten."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("root", [".", "src"])
def test_a_module_is_found_from_the_current_folder_and_from_src(folder: Path, root: str) -> None:
    package = folder / root / f"sinks_below_{len(root)}"
    package.mkdir(parents=True)
    (package / "orders.py").write_text(CONTRACT.format(name="Orders"))
    locator = f"{package.name}.orders:Orders"
    assert "Orders" == type(load(locator).given).__name__
    assert f"{package / 'orders.py'}:Orders" == found_anywhere(locator)


@pytest.mark.parametrize("is_package", [True, False])
def test_a_file_may_import_its_neighbours_by_their_place(folder: Path, is_package: bool) -> None:
    package = folder / "outer" / f"inner_{is_package}".lower()
    package.mkdir(parents=True)
    if is_package:
        (package / "__init__.py").touch()
    (package / "names.py").write_text("NAME = 'of a neighbour'")
    (package / "orders.py").write_text("from .names import NAME\n" + CONTRACT.format(name="Orders"))
    given = load(f"{package}/orders.py:Orders").given
    assert "of a neighbour" == vars(sys.modules[type(given).__module__])["NAME"]


@pytest.mark.parametrize("name", ["queue", "sndhdr"])
def test_a_file_with_the_name_of_a_standard_module_hides_it_from_no_library(folder: Path, name: str) -> None:
    (folder / f"{name}.py").write_text(CONTRACT.format(name="Orders") + WHAT_A_LIBRARY_FINDS.format(name=name))
    given = load(f"{name}.py:Orders").given
    assert is_standard(Path(vars(sys.modules[type(given).__module__])["FOUND"]))
    assert name not in sys.modules or not hasattr(sys.modules[name], "Orders")


@pytest.mark.parametrize("is_package", [True, False])
def test_a_neighbour_with_the_name_of_a_standard_module_is_what_the_file_imports(
    folder: Path, is_package: bool
) -> None:
    """In a package only by its place: `import sndhdr` means the standard module there."""
    inside = folder / f"with_neighbour_{is_package}".lower()
    inside.mkdir()
    (inside / "sndhdr.py").write_text("NAME = 'of a neighbour'")
    if is_package:
        (inside / "__init__.py").touch()
    how = "from .sndhdr import NAME\n" if is_package else "from sndhdr import NAME\n"
    (inside / "orders.py").write_text(how + CONTRACT.format(name="Orders") + WHAT_A_LIBRARY_FINDS.format(name="sndhdr"))
    given = load(f"{inside}/orders.py:Orders").given
    found = vars(sys.modules[type(given).__module__])
    assert ("of a neighbour", is_package) == (found["NAME"], is_standard(Path(found["FOUND"])))


def test_another_failed_import_is_reported_as_it_is(folder: Path) -> None:
    (folder / "needs_more.py").write_text("import no_such_module_at_all")
    with pytest.raises(ContractError, match="No module named 'no_such_module_at_all'"):
        load("needs_more.py:Orders")


def test_an_error_says_what_was_probably_meant(folder: Path) -> None:
    (folder / "spelled.py").write_text(CONTRACT.format(name="OrdersContract"))
    with pytest.raises(ContractError, match=r"no 'OrderContract' in spelled\.py \(did you mean 'OrdersContract'\?\)"):
        load("spelled.py:OrderContract")
    with pytest.raises(ContractError, match=r"name its contract, as in spelled\.py:OrdersContract"):
        load("spelled.py")
    with pytest.raises(ContractError, match=r"'files/two_phase' \(did you mean 'files/two-phase'\?\)"):
        load("files/two_phase")


@pytest.mark.parametrize("place", ["", ".", "..", ".sinks"])
def test_what_names_no_module_is_refused_and_an_example_shown(place: str) -> None:
    with pytest.raises(ContractError, match=f"'{place}' is no module and no file in Python. Name one: my_sink.py:"):
        load(f"{place}:Mine")


def test_a_folder_is_no_subject_and_one_of_its_files_is_the_example(folder: Path) -> None:
    (folder / "sinks").mkdir()
    (folder / "sinks/orders.py").write_text(CONTRACT.format(name="Orders"))
    with pytest.raises(ContractError, match=r"sinks is a folder: .*, as in sinks/orders\.py:Class"):
        load("sinks")
