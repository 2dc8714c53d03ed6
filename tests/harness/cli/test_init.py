"""`sinkproof init`: what it writes can be certified once the reader is filled in, and nothing is ever overwritten."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sinkproof.subject.loading import load

Call = Callable[..., tuple[int, str, str]]
SINK = """
from pathlib import Path

class {name}:
    def __init__(self, {parameters}): pass
    def open(self, context): pass
    def write(self, batch): pass
    def snapshot(self, checkpoint_id): return b""
    def notify_complete(self, checkpoint_id): pass

class {name}Table:
    def __init__(self, *args, **options): pass
    def upsert(self, rows): pass
"""
WRITTEN = ["{}_contract.py", "test_{}.py", ".github/workflows/sinkproof.yml"]


@pytest.fixture
def sink(tmp_path: Path) -> str:
    """The name of a module in the current folder; unique, because modules outlive a test."""
    name = f"sink_of_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(SINK.format(name="Orders", parameters="folder: Path, /, table, *, retries=3"))
    return name


def test_it_writes_a_contract_a_test_and_a_workflow(call: Call, tmp_path: Path, sink: str) -> None:
    status, out, err = call("init", f"{sink}.py:Orders")
    assert (0, "") == (status, err)
    expected = [name.format(sink) for name in WRITTEN]
    assert [f"written  {name}" for name in expected] == out.splitlines()[:3]
    assert f"  sinkproof certify {sink}_contract.py:OrdersContract" == out.splitlines()[-1]
    contract = (tmp_path / expected[0]).read_text()
    assert "return Orders(scratch.path, table=None)  # fill in: table" in contract
    assert "claims = Claim.EXACTLY_ONCE" in contract
    assert f"SUBJECT: {sink}_contract.py:OrdersContract" in (tmp_path / expected[2]).read_text()
    assert ast.parse((tmp_path / expected[1]).read_text())


def test_the_contract_lacks_nothing_but_the_reader(call: Call, tmp_path: Path, sink: str) -> None:
    call("init", f"{sink}.py:OrdersTable", "--ci", "none")
    assert not (tmp_path / ".github").exists()
    path = tmp_path / f"{sink}_contract.py"
    contract = load(f"{path}:OrdersTableContract")
    assert "EFFECTIVELY_ONCE" in path.read_text()
    with pytest.raises(NotImplementedError, match="give the rows that OrdersTable has committed"):
        contract.committed(None)  # type: ignore[arg-type]
    spec = importlib.util.spec_from_file_location("test_of_sink", tmp_path / f"test_{sink}.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert hasattr(module.TestOrdersTable, "test_claim")


def test_nothing_is_overwritten(call: Call, tmp_path: Path, sink: str) -> None:
    files = [tmp_path / name.format(sink) for name in WRITTEN]
    for file in files[:2]:
        file.write_text("mine")
    status, out, _ = call("init", f"{sink}.py:Orders")
    assert 0 == status
    assert [f"kept     {file.name}: it exists already" for file in files[:2]] == out.splitlines()[:2]
    assert ["mine", "mine"] == [file.read_text() for file in files[:2]]
    assert files[2].exists()


def test_a_module_of_a_package_is_named_as_it_is_imported(
    call: Call, tmp_path: Path, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / f"package_of_{sink}"
    package.mkdir()
    (package / "__init__.py").touch()
    (tmp_path / f"{sink}.py").rename(package / "orders.py")
    (tmp_path / ".gitlab-ci.yml").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    status, out, _ = call("init", f"{package.name}.orders:Orders")
    assert 0 == status
    subject = f"{package.name}.orders_contract:OrdersContract"
    assert f"sinkproof certify {subject}" in out
    assert f"from {package.name}.orders import Orders" in (package / "orders_contract.py").read_text()
    assert f"SUBJECT: {subject}" in (tmp_path / "sinkproof.gitlab-ci.yml").read_text()
    assert subject == load(subject).locator
    sys.modules.pop(package.name)


def test_a_class_that_is_no_sink_is_refused_before_anything_is_written(call: Call, tmp_path: Path, sink: str) -> None:
    (tmp_path / f"{sink}.py").write_text("class Orders:\n    def open(self, context): pass\n")
    status, out, err = call("init", f"{sink}.py:Orders")
    assert (3, "") == (status, out)
    assert "Orders has open, but lacks write, snapshot, notify_complete to be a sink" in err
    assert [f"{sink}.py"] == [path.name for path in tmp_path.iterdir() if path.suffix]


def test_a_contract_that_is_kept_is_the_one_that_is_named(call: Call, tmp_path: Path, sink: str) -> None:
    (tmp_path / f"{sink}_contract.py").write_text(
        "class Other:\n    def committed(self, scratch): ...\n"
        "class Mine:\n    def sink(self, scratch): return Orders()\n    def committed(self, scratch): ...\n"
    )
    _, out, _ = call("init", f"{sink}.py:Orders")
    assert ["Next: run:", f"  sinkproof certify {sink}_contract.py:Mine"] == out.splitlines()[-2:]
    assert f"from {sink}_contract import Mine" in (tmp_path / f"test_{sink}.py").read_text()
    assert f"SUBJECT: {sink}_contract.py:Mine" in (tmp_path / WRITTEN[2]).read_text()


def test_of_a_second_sink_in_the_same_file_it_says_that_the_kept_contract_is_not_its(
    call: Call, tmp_path: Path, sink: str
) -> None:
    call("init", f"{sink}.py:Orders", "--ci", "none")
    status, out, _ = call("init", f"{sink}.py:OrdersTable", "--ci", "none")
    assert 0 == status
    file = tmp_path / f"{sink}_contract.py"
    assert f"{file.name} has no contract for OrdersTable. Add this:" in out
    assert "Next: let `committed` in" in out
    assert f"  sinkproof certify {file.name}:OrdersTableContract" == out.splitlines()[-1]
    text = out.partition("Add this:\n")[2].partition("Next:")[0]
    file.write_text(file.read_text() + text)
    with pytest.raises(NotImplementedError, match="give the rows that OrdersTable has committed"):
        load(f"{file}:OrdersTableContract").committed(None)  # type: ignore[arg-type]
    _, out, _ = call("init", f"{sink}.py:OrdersTable", "--ci", "none")
    assert ["Next: run:", f"  sinkproof certify {file.name}:OrdersTableContract"] == out.splitlines()[-2:]
    _, out, _ = call("init", f"{sink}.py:Orders", "--ci", "none")
    assert f"  sinkproof certify {file.name}:OrdersContract" == out.splitlines()[-1]


def test_a_contract_that_is_named_after_the_sink_may_inherit_its_reader(call: Call, tmp_path: Path, sink: str) -> None:
    (tmp_path / f"{sink}_contract.py").write_text("from readers import Base\nclass OrdersContract(Base): ...\n")
    _, out, _ = call("init", f"{sink}.py:Orders")
    assert ["Next: run:", f"  sinkproof certify {sink}_contract.py:OrdersContract"] == out.splitlines()[-2:]
