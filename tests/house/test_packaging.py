"""The folders of the root become one package: every part of it is in the wheel, once, and under one name."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

PACKAGES = {  # folder: its import name
    "harness": "sinkproof",
    "chaos": "sinkproof.chaos",
    "reference_engine": "sinkproof.reference_engine",
    "reports": "sinkproof.reports",
    "sink_adapters": "sinkproof.sink_adapters",
}
NOT_SHIPPED = re.compile(r"reports/examples/|.*/DECISIONS\.md$")  # for readers of the source

LOADED_BY_IMPORT = """
import sys
before = set(sys.modules)
import sinkproof
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
sys.stdout.write(" ".join(sorted(loaded - sys.stdlib_module_names - {"sinkproof"})))
"""


def python(*arguments: str, cwd: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"PYTHONPATH": str(path)} if path else {})}
    command = (sys.executable, *arguments)
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def packaged_files(project_files: list[str]) -> list[str]:
    inside = [path for path in project_files if path.split("/")[0] in PACKAGES]
    return [path for path in inside if not NOT_SHIPPED.match(path)]


def path_in_wheel(path: str) -> str:
    folder, rest = path.split("/", 1)
    return f"{PACKAGES[folder].replace('.', '/')}/{rest}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, project: Path, project_files: list[str]) -> Path:
    """Built from a copy: setuptools leaves folders in the source, and takes what an older build left there."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for path in project_files:
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(project / path, source / path)
    options = (
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--disable-pip-version-check",
        "--wheel-dir",
        str(target),
    )
    build = python("-m", "pip", "wheel", *options, str(source), cwd=target)
    assert build.returncode == 0, build.stdout + build.stderr
    return next(target.glob("sinkproof-*.whl"))


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    target = tmp_path_factory.mktemp("unpacked")
    zipfile.ZipFile(wheel).extractall(target)
    return target


@pytest.mark.slow
def test_every_file_of_every_package_is_in_the_wheel(unpacked: Path, project_files: list[str]) -> None:
    missing = [path for path in packaged_files(project_files) if not (unpacked / path_in_wheel(path)).is_file()]
    assert [] == missing, "List the folder in [tool.setuptools] packages, other files in package-data (pyproject.toml)"


@pytest.mark.slow
def test_nothing_else_is_in_the_wheel(unpacked: Path, project_files: list[str]) -> None:
    shipped = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    others = shipped - {path_in_wheel(path) for path in packaged_files(project_files)}
    assert set() == {path for path in others if not re.match(r"sinkproof-[^/]+\.dist-info/", path)}


@pytest.fixture(scope="module")
def metadata_of_wheel(unpacked: Path) -> Message:
    return message_from_string(next(unpacked.glob("sinkproof-*.dist-info/METADATA")).read_text(encoding="utf-8"))


def dead_ends(text: str, folder: Path, root: Path) -> list[str]:
    """What a document in this folder of the wheel points to, and the wheel does not have: links, paths, modules."""
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)(?!, in a checkout)", text)
    found = [link for link in links if "://" not in link and not (folder / link).is_file()]
    inside = re.findall(r"(\w+\.md) in `(sinkproof[.\w]*)`", text)
    found += [name for name, module in inside if not (root / module.replace(".", "/") / name).is_file()]
    words = re.findall(r"`([\w./-]+)`", text)
    modules = [word for word in words if re.fullmatch(r"sinkproof(\.[a-z_]\w*)+", word)]
    bases = {name: root / name.replace(".", "/") for name in modules}
    found += [name for name, base in bases.items() if not (base.is_dir() or base.with_suffix(".py").is_file())]
    shipped = {path.name for path in root.glob("sinkproof/**/*.*")}
    paths = [word for word in words if word.partition("/")[0] in {*PACKAGES, "sinkproof"} or word in shipped]
    return found + [path for path in paths if not ((folder / path).exists() or (root / path).exists())]


@pytest.mark.slow
def test_what_a_shipped_document_points_to_is_in_the_wheel(unpacked: Path) -> None:
    documents = list(unpacked.glob("sinkproof/**/*.md"))
    assert {"CONTRACT.md", "CI.md", "KAFKA.md"} <= {path.name for path in documents}
    found = {path.name: dead_ends(path.read_text(encoding="utf-8"), path.parent, unpacked) for path in documents}
    assert {} == {name: ends for name, ends in found.items() if ends}


@pytest.mark.slow
def test_what_leads_nowhere_in_a_wheel_is_noticed(unpacked: Path) -> None:
    dead = (
        *("[a](../../CONTRACT.md)", "`harness/workload/jobs.py`", "`chaos/points.py`", "`jobs.py`"),
        *("`sinkproof.workload.of_old`", "FAULTS.md in `sinkproof.sink_adapters.kafka`"),
    )
    assert [True] * len(dead) == [bool(dead_ends(text, unpacked / "sinkproof/cli", unpacked)) for text in dead]
    live = "[a](../CONTRACT.md) `CI.md` `my_sink.py` `sinkproof.workload.jobs` [a](../../b.md), in a checkout"
    assert [] == dead_ends(live, unpacked / "sinkproof/cli", unpacked)


@pytest.mark.slow
def test_the_metadata_links_to_no_home_while_there_is_none(metadata_of_wheel: Message) -> None:
    """A first link is a decision (DECISIONS.md), after a look at what it leads to."""
    assert ("sinkproof", None, None) == tuple(metadata_of_wheel[key] for key in ("Name", "Project-URL", "Home-page"))


@pytest.mark.slow
def test_every_module_of_the_wheel_can_be_imported_from_it(unpacked: Path, project_files: list[str]) -> None:
    """Not from the checkout: an import of a folder's bare name would work there and nowhere else."""
    modules = [path_in_wheel(path) for path in packaged_files(project_files) if path.endswith(".py")]
    names = [re.sub(r"(/__init__)?\.py$", "", path).replace("/", ".") for path in modules]
    names = [name for name in names if not name.endswith("__main__")]
    code = (
        f"import sys, importlib; [importlib.import_module(name) for name in {names}]; print(sys.modules['sinkproof'])"
    )
    run = python("-P", "-c", code, cwd=unpacked.parent, path=unpacked)
    assert (0, True) == (run.returncode, str(unpacked) in run.stdout), run.stdout + run.stderr


def test_what_the_entry_points_name_exists(unpacked: Path) -> None:
    text = next(unpacked.glob("sinkproof-*.dist-info/entry_points.txt")).read_text(encoding="utf-8")
    modules = re.findall(r"^sinkproof = (sinkproof[.\w]+)", text, re.MULTILINE)
    assert ["sinkproof.__main__", "sinkproof.pytest_plugin.plugin"] == modules
    assert [] == [name for name in modules if not (unpacked / f"{name.replace('.', '/')}.py").is_file()]


def test_import_sinkproof_loads_no_foreign_package(project: Path) -> None:
    """Every child process pays for it: import foreign packages inside functions, or in modules that are loaded late."""
    run = python("-c", LOADED_BY_IMPORT, cwd=project.parent)
    assert (0, "") == (run.returncode, run.stdout), run.stdout + run.stderr


@pytest.mark.parametrize("folder", PACKAGES)
def test_a_folder_refuses_its_bare_name_and_says_the_right_one(folder: str, project: Path) -> None:
    """From the root `import harness` would load a second copy with classes of its own."""
    run = python("-c", f"import {folder}", cwd=project)
    assert 1 == run.returncode
    assert f"ImportError: import this package as {PACKAGES[folder]}, not as {folder}" in run.stderr


def test_pyproject_lists_every_package(project: Path, project_files: list[str]) -> None:
    setuptools = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert {name: folder for folder, name in PACKAGES.items()} == setuptools["package-dir"]
    folders = {str(Path(path).parent) for path in packaged_files(project_files) if path.endswith(".py")}
    names = {path_in_wheel(f"{folder}/").strip("/").replace("/", ".") for folder in folders}
    assert sorted(names) == sorted(setuptools["packages"]), (
        "pyproject.toml, [tool.setuptools] packages: one line a folder"
    )
    assert [] == [folder for folder in sorted(folders) if not (project / folder / "__init__.py").is_file()]


def test_no_module_of_the_harness_hides_a_folder(project_files: list[str]) -> None:
    """`harness/` is sinkproof, `reports/` is sinkproof.reports: a module reports.py in `harness/` would shadow it."""
    names = {path.split("/")[1].removesuffix(".py") for path in project_files if path.startswith("harness/")}
    assert set() == names & set(PACKAGES), "rename it"


def test_the_fast_tests_leave_out_what_all_tests_leave_out(project: Path) -> None:
    """An -m of the command line replaces the one of the settings."""
    settings = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    usual = settings["tool"]["pytest"]["ini_options"]["addopts"][-1]
    (quick,) = re.findall(r'-m "(.*)" \$\(TESTS\)', (project / "Makefile").read_text(encoding="utf-8"))
    assert set(usual.split(" and ")) < set(quick.split(" and "))
