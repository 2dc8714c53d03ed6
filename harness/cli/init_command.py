"""`sinkproof init`: writes a contract, a test and a CI workflow for a sink class that it is shown."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import resources
from pathlib import Path
from typing import Any, Final

import click

from sinkproof.reports.document import write_errors

CONTRACT: Final = '''"""What {name} promises, how one is made, and what a reader sees."""

from sinkproof import Claim

from {module} import {name}


class {name}Contract:
    claims = Claim.{claims}

    def sink(self, scratch):
        """Called once for each attempt. `scratch.path` is a folder, empty at first, that is kept over restarts."""
        return {name}({arguments}){fill_in}

    def committed(self, scratch):
        """(split, offset, key, value) of every row that a reader sees, repeats included; {name} is not asked.

        Called at any moment, also before the first sink was opened: there may be nothing to read yet.
        """
        raise NotImplementedError("give the rows that {name} has committed: yield split, offset, key, value")
'''
DOCSTRING_END: Final = '"""\n\n'
TEST: Final = '''"""{name} under faults: pytest collects one test per claim and protocol step."""

from sinkproof import certification
from {module}_contract import {contract}

Test{name} = certification({contract})
'''
CLAIMS: Final = {"an upsert target": "EFFECTIVELY_ONCE", "an append target": "AT_LEAST_ONCE"}  # else exactly once
A_PATH: Final = re.compile(r"path|folder|dir|root|location", re.IGNORECASE)
WORKFLOWS: Final = {  # by service: the file in the repository, and its text here
    "github": (".github/workflows/sinkproof.yml", "github_workflow.yml"),
    "gitlab": ("sinkproof.gitlab-ci.yml", "gitlab_job.yml"),
}
SAMPLE: Final = "my_sink.py:MyContract"  # the subject in these texts


@click.command()
@click.argument("sink")
@click.option(
    "--ci",
    "service",
    type=click.Choice([*WORKFLOWS, "none"]),
    help="For which service a workflow is written.  [default: gitlab where there is a .gitlab-ci.yml, else github]",
)
def init(sink: str, service: str | None) -> None:
    """Write a contract, a test and a CI workflow for the class SINK, to begin with.

    SINK is path/to/file.py:Class or package.module:Class: a sink, or a target that sinkproof puts a strategy around.
    The contract and its test are written beside it. Files that exist are left as they are.

    \b
    sinkproof init my_sink.py:MySink             my_sink_contract.py, test_my_sink.py, .github/workflows/sinkproof.yml
    """
    from sinkproof.sink_adapters.strategies.adapt_to_sink import family_of
    from sinkproof.subject.contract import ContractError
    from sinkproof.subject.loading import class_at

    found, file, module = class_at(sink)
    try:
        claims = CLAIMS.get(family_of(found), "EXACTLY_ONCE")
    except TypeError as error:
        raise ContractError(f"{sink}: {error}") from error
    arguments, open_ones = _arguments(found)
    words = {"name": found.__name__, "module": module, "claims": claims, "arguments": ", ".join(arguments)}
    contract = file.with_name(f"{file.stem}_contract.py")
    fill_in = f"  # fill in: {', '.join(open_ones)}" if open_ones else ""
    text = CONTRACT.format(**words, fill_in=fill_in)
    is_new = _write(contract, text)
    kept = _contract_in(contract, found.__name__)
    named = kept or f"{found.__name__}Contract"
    _write(file.with_name(f"test_{file.stem}.py"), TEST.format(**words, contract=named))
    subject = f"{module}_contract" if "." in module else contract.as_posix()
    service = service or ("gitlab" if Path(".gitlab-ci.yml").exists() else "github")
    if service in WORKFLOWS:
        path, source = WORKFLOWS[service]
        text = resources.files("sinkproof.cli").joinpath(source).read_text("utf-8")
        _write(Path(path), text.replace(SAMPLE, f"{subject}:{named}"))
    if not kept:
        click.echo(f"{contract} has no contract for {found.__name__}. Add this:")
        click.echo(f"\n{text.partition(DOCSTRING_END)[2]}")
    first = "" if kept and not is_new else f"let `committed` in {contract} give what a reader sees, then "
    click.echo(f"Next: {first}run:")
    click.echo(f"  sinkproof certify {subject}:{named}")


def _contract_in(file: Path, sink: str) -> str:
    """The contract of this sink: the class named after it, or the first with `committed` that mentions it."""
    try:
        parsed = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return ""
    classes = [each for each in parsed.body if isinstance(each, ast.ClassDef)]
    named = [each.name for each in classes if each.name == f"{sink}Contract"]
    readers = [each for each in classes if any(map(_is_reader, each.body))]
    return next(iter([*named, *(each.name for each in readers if _mentions(each, sink))]), "")


def _mentions(part: ast.AST, name: str) -> bool:
    return any(name in (getattr(each, "id", None), getattr(each, "attr", None)) for each in ast.walk(part))


def _is_reader(part: ast.stmt) -> bool:
    return isinstance(part, ast.FunctionDef) and part.name == "committed"


def _write(path: Path, text: str) -> bool:
    """Only where there is nothing yet. Whether it was written."""
    with write_errors(f"cannot write {path}", next_step="Make the folder writable"):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            click.echo(f"kept     {path}: it exists already")
            return False
        click.echo(f"written  {path}")
        return True


def _arguments(found: type) -> tuple[list[str], list[str]]:
    """The arguments of its constructor without a default, as code, and those that only the user knows."""
    try:
        parameters: list[Any] = list(inspect.signature(found).parameters.values())
    except (TypeError, ValueError):  # a class that is not written in Python
        return [], ["its arguments"]
    needed = [
        each
        for each in parameters
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    values = {each.name: "scratch.path" if _is_path(each) else "None" for each in needed}
    given = [
        values[each.name] if each.kind is each.POSITIONAL_ONLY else f"{each.name}={values[each.name]}"
        for each in needed
    ]
    return given, [name for name, value in values.items() if value == "None"]


def _is_path(parameter: inspect.Parameter) -> bool:
    annotated = parameter.annotation is not parameter.empty and "Path" in str(parameter.annotation)
    return annotated or A_PATH.search(parameter.name) is not None
