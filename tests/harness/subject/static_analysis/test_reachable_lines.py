"""Which statements a sink's calls can lead to, and which of them only handle or raise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from sinkproof.subject.static_analysis.reachable_lines import Duty, reachable_statements

Reachable = Callable[..., dict[str, Duty]]
CALLS = frozenset({"write", "commit"})


@pytest.fixture
def statements(tmp_path: Path) -> Reachable:
    def of(code: str, *, contract: str = "") -> dict[str, Duty]:
        """The texts of the first lines of all reachable statements of the class Sink, with their duty."""
        file = tmp_path / "sink.py"
        file.write_text(dedent(code))
        found = reachable_statements({str(file): "sink.py"}, sinks={"Sink"}, calls=CALLS, contract=contract)
        lines = file.read_text().splitlines()
        return {lines[int(each.point.rpartition(":")[2].rstrip(")")) - 1].strip(): each.duty for each in found}

    return of


def test_what_calls_name_is_reached_through_functions_and_classes(statements: Reachable) -> None:
    code = """
        class Sink:
            def write(self, batch):
                put(batch)
            def unused(self):
                return 1

        def put(batch):
            Log().add(batch)

        def lonely():
            return 2

        class Log:
            def __init__(self):
                self.rows = []
            def add(self, batch):
                self.rows += batch
            def never(self):
                return 3
    """
    assert {"put(batch)", "Log().add(batch)", "self.rows = []", "self.rows += batch"} == {*statements(code)}


@pytest.mark.parametrize(("keys", "is_reached"), [("self.table.keys", False), ("self.table.rows()", True)])
def test_an_attribute_that_is_assigned_is_no_call_of_a_method_of_that_name(
    keys: str, is_reached: bool, statements: Reachable
) -> None:
    code = """
        class Sink:
            def write(self, batch):
                self.rows = batch
                self.table = Table()
                self.table.seen(self.rows, self.table.keys)

        class Table:
            def rows(self):
                return 1
            def keys(self):
                return 2
            def seen(self, rows, keys):
                self.seen_by = keys()
    """
    reached = {*statements(code.replace("self.table.keys)", f"{keys})"))}
    assert {"return 2", "self.seen_by = keys()"} <= reached
    assert is_reached is ("return 1" in reached)


@pytest.mark.parametrize(("said", "is_reached"), [("rows", False), ("Table.rows", True)])
def test_a_variable_is_no_call_of_a_method_of_that_name(said: str, is_reached: bool, statements: Reachable) -> None:
    code = f"""
        class Sink:
            def write(self, batch):
                for name, rows in batch:
                    Table().put(map({said}, name))

        class Table:
            def put(self, given):
                self.given = given
            def rows(self):
                return 1
    """
    reached = {*statements(code)}
    assert "self.given = given" in reached
    assert is_reached is ("return 1" in reached)


def test_of_classes_with_one_name_inside_several_contracts_that_of_this_contract_is_meant(tmp_path: Path) -> None:
    file = tmp_path / "contracts.py"
    file.write_text(
        dedent("""
        class Base:
            def open(self, context):
                self.rows = []

        class Mine:
            class make(Base):
                def write(self, batch):
                    self.rows += batch

        class Other(Mine):
            class make(Mine.make):
                def write(self, batch):
                    self.others = batch

        class Heir(Other):
            pass
        """)
    )

    def reached(contract: str) -> set[str]:
        calls = frozenset({"open", "write"})
        found = reachable_statements({str(file): "c.py"}, sinks={"make", "Base"}, calls=calls, contract=contract)
        lines = file.read_text().splitlines()
        return {lines[int(each.point.rpartition(":")[2].rstrip(")")) - 1].strip() for each in found}

    assert {"self.rows = []", "self.rows += batch"} == reached("Mine")
    assert {"self.rows = []", "self.others = batch"} == reached("Heir")


def test_a_method_of_a_class_that_never_occurs_is_not_reached(statements: Reachable) -> None:
    code = """
        class Sink:
            def write(self, batch):
                self.file.flush()

        class Another:
            def flush(self):
                return 1
    """
    assert ["self.file.flush()"] == [*statements(code)]


def test_names_in_annotations_lead_nowhere(statements: Reachable) -> None:
    code = """
        class Sink:
            def write(self, batch: "Batch", to: Other = None) -> Other:
                x: Other = 1

        class Other:
            def __init__(self):
                self.y = 2
    """
    assert ["x: Other = 1"] == [*statements(code)]


def test_bases_and_module_level_objects_are_followed(statements: Reachable) -> None:
    code = """
        class Base:
            def commit(self):
                STORE.put()

        class Sink(Base):
            pass

        class Store:
            def put(self):
                return 1

        STORE = Store()
    """
    assert {"STORE.put()", "return 1"} == {*statements(code)}


def test_the_harness_calls_what_else_a_contract_has(statements: Reachable) -> None:
    code = """
        class Sink:
            def write(self, batch):
                self.read(batch)

        class Contract:
            def sink(self, scratch):
                return Sink()
            def read(self, batch):
                return 1
    """
    assert {"self.read(batch)", "return Sink()"} == {*statements(code, contract="Contract")}


def test_what_handles_or_raises_is_told_apart(statements: Reachable) -> None:
    code = """
        class Sink:
            def write(self, batch):
                try:
                    send(batch)
                except OSError:
                    undo()
                else:
                    done()
                finally:
                    tidy()
                if not batch:
                    log()
                    raise ValueError
                if len(batch) > 10:  # pragma: no cover
                    big(batch)
    """
    duties = statements(code)
    exceptional = {text for text, duty in duties.items() if duty is Duty.EXCEPTIONAL}
    excluded = {text for text, duty in duties.items() if duty is Duty.EXCLUDED}
    assert {"undo()", "log()", "raise ValueError"} == exceptional
    assert {"if len(batch) > 10:  # pragma: no cover", "big(batch)"} == excluded
    assert {"try:", "send(batch)", "done()", "tidy()", "if not batch:"} == {*duties} - exceptional - excluded


def test_a_method_that_is_overridden_is_reached_through_super_only(statements: Reachable) -> None:
    code = """
        class Base:
            def write(self, batch):
                return "hidden"
            def commit(self):
                return "through super"

        class Sink(Base):
            def write(self, batch):
                return "seen"
            def commit(self):
                super().commit()
    """
    assert {'return "seen"', "super().commit()", 'return "through super"'} == {*statements(code)}


def test_only_what_always_ends_by_raising_is_an_exception(statements: Reachable) -> None:
    code = """
        class Sink:
            def commit(self):
                for _ in range(3):
                    if self.send():
                        return
                    self.wait()
                raise TimeoutError
    """
    duties = statements(code)
    assert {"raise TimeoutError": Duty.EXCEPTIONAL} == {
        text: duty for text, duty in duties.items() if duty is not Duty.NORMAL
    }
    assert Duty.NORMAL is duties["self.wait()"]


def test_a_statement_of_several_lines_is_one(statements: Reachable) -> None:
    code = """
        class Sink:
            def write(self, batch):
                self.put(
                    batch,
                    1,
                )
                with open(
                    "x"
                ) as file:
                    file.write(batch)
    """
    assert ["self.put(", "with open(", "file.write(batch)"] == [*statements(code)]
