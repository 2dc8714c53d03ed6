"""The code blocks of the documents are run, in order, in one empty folder per document.

A comment on the line before a block of bash or Python says how the test treats it:

    <!-- run -->          it is run and must succeed; `run 1`: it must end with this status
    <!-- run longer -->   it must succeed, and only the longer tests run it
    <!-- prints -->       a block of text: the block that ran last has printed its lines, in this order; … is anything
    <!-- show -->         it is only parsed; targets of make and subcommands of sinkproof must exist
    <!-- file NAME -->    it is written to the file NAME, for the blocks after it
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from sinkproof.cli.main import cli

DOCUMENTS = (
    *("README.md", "CONTRACT.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "tests/README.md", "reports/REPORTS.md"),
    *("harness/cli/CI.md", "harness/pytest_plugin/PYTEST.md", "harness/certifier/VERDICTS.md"),
    *("chaos/faults/FAULTS.md", "chaos/services/CONTAINERS.md", "harness/pipeline/PIPELINES.md"),
    *("harness/table/TABLE.md", "sink_adapters/kafka/KAFKA.md", "sink_adapters/cassandra/CASSANDRA.md"),
    *("reference_engine/shells/process/COMMANDS.md", "reference_engine/shells/spark/SPARK.md"),
)
BLOCK = re.compile(
    r"^(?:<!-- *(?P<mark>.*?) *-->\n)?^```(?P<language>bash|python|(?<=<!-- prints -->\n```)text)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
LONGER = "run longer"
LONGER_DOCUMENTS = ("README.md",)
SECONDS_PER_BLOCK = 300.0  # the examples are small; less than the time a test may take, so that the block is named


@dataclass(frozen=True, slots=True)
class Block:
    place: str  # document:line
    mark: str
    language: str
    code: str


def blocks(document: str, text: str) -> list[Block]:
    found = BLOCK.finditer(text)
    return [
        Block(f"{document}:{text[: match.end('language')].count(chr(10)) + 1}", match["mark"] or "", *match.group(2, 3))
        for match in found
    ]


def parse(block: Block) -> None:
    if block.language == "python":
        ast.parse(block.code, filename=block.place)
    if block.language != "bash":
        return
    bash = subprocess.run(("bash", "-n"), input=block.code, capture_output=True, text=True, check=False)
    assert bash.returncode == 0, f"{block.place}: {bash.stderr}"


def run(block: Block, folder: Path, environment: dict[str, str]) -> str:
    """What it printed."""
    command = (sys.executable, "-c") if block.language == "python" else ("bash", "-eu", "-o", "pipefail", "-c")
    done = subprocess.run(
        (*command, block.code),
        cwd=folder,
        env=environment,
        timeout=SECONDS_PER_BLOCK,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    expected = int(re.sub(r"\D", "", block.mark) or 0)
    assert done.returncode == expected, f"{block.place} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def lines_not_printed(code: str, output: str) -> list[str]:
    """Those that are not in the output, or not in this order."""
    missing, rest = [], iter(output.splitlines())
    for line in code.splitlines():
        pattern = ".*".join(map(re.escape, line.strip().split("…")))
        if not any(re.fullmatch(pattern, each.strip()) for each in rest):
            missing.append(line)
    return missing


def commands_that_do_not_exist(code: str, project: Path) -> list[str]:
    targets = re.findall(r"^([a-z-]+):", (project / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    make = set(re.findall(r"^\s*make (?:\w+=\S+ )*([a-z-]+)", code, re.MULTILINE)) - set(targets)
    sinkproof = set(re.findall(r"^\s*sinkproof ([a-z-]+)", code, re.MULTILINE)) - set(cli.commands)
    return [f"make {name}" for name in sorted(make)] + [f"sinkproof {name}" for name in sorted(sinkproof)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "are_all"),
    [
        *((document, False) for document in DOCUMENTS),
        *(pytest.param(document, True, marks=pytest.mark.longer) for document in LONGER_DOCUMENTS),
    ],
)
def test_the_code_blocks_work(
    document: str, are_all: bool, project: Path, tmp_path: Path, command_environment: dict[str, str]
) -> None:
    output: str | None = ""  # None: the block before was left out
    environment = {name: value for name, value in command_environment.items() if name != "SINKPROOF_FRESH"}
    for block in blocks(document, (project / document).read_text(encoding="utf-8")):
        parse(block)
        if re.fullmatch(r"run( \d+)?", block.mark):
            output = run(block, tmp_path, environment)
        elif block.mark == LONGER:
            output = run(block, tmp_path, environment) if are_all else None
        elif block.mark == "prints":
            missing = [] if output is None else lines_not_printed(block.code, output)
            assert [] == missing, f"{block.place}: not in\n{output}"
        elif block.mark.startswith("file "):
            (tmp_path / block.mark.removeprefix("file ")).write_text(block.code, encoding="utf-8")
        else:
            assert block.mark == "show", (
                f"{block.place}: put <!-- run -->, <!-- show -->, <!-- prints --> or <!-- file NAME --> before it"
            )


def test_documents_with_longer_blocks_are_listed(project: Path) -> None:
    texts = {document: (project / document).read_text(encoding="utf-8") for document in DOCUMENTS}
    with_longer = [name for name, text in texts.items() if LONGER in {block.mark for block in blocks(name, text)}]
    assert [*LONGER_DOCUMENTS] == with_longer


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_commands_exist(document: str, project: Path) -> None:
    shown = blocks(document, (project / document).read_text(encoding="utf-8"))
    missing = [
        f"{block.place}: {name}"
        for block in shown
        if block.language == "bash"
        for name in commands_that_do_not_exist(block.code, project)
    ]
    assert [] == missing


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_files_and_folders_that_are_linked_exist(document: str, project: Path) -> None:
    text = (project / document).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if "://" not in link]
    assert [] == [link for link in links if not (project / document).parent.joinpath(link).exists()]


SAMPLE = """text
<!-- run -->
```bash
echo hello >greeting
```
<!-- file greet.py -->
```python
print("hello")
```
```python
x = 1
```
<!-- show -->
```bash
make nothing-of-this-kind
```
"""


def test_blocks_are_found_with_their_marks_and_lines() -> None:
    found = [(block.place, block.mark, block.language) for block in blocks("a.md", SAMPLE)]
    assert [
        ("a.md:3", "run", "bash"),
        ("a.md:7", "file greet.py", "python"),
        ("a.md:10", "", "python"),
        ("a.md:14", "show", "bash"),
    ] == found


def test_a_block_that_fails_is_noticed(tmp_path: Path, command_environment: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match=r"a\.md:1 ended with 3"):
        run(Block("a.md:1", "run", "bash", "exit 3\n"), tmp_path, command_environment)


def test_a_command_that_does_not_exist_is_noticed(project: Path) -> None:
    assert ["make nothing-of-this-kind"] == commands_that_do_not_exist(
        "make nothing-of-this-kind\nmake test\n", project
    )


def test_a_line_that_is_not_printed_is_noticed() -> None:
    output = "certifying\n  why  3 rows lost\nUPHELD in 20 s\n"
    assert [] == lines_not_printed("why  … lost\nUPHELD in … s\n", output)
    assert ["certifying"] == lines_not_printed("why  3 rows lost\ncertifying\n", output)
