"""The prose: the subject of a sentence is a noun of the glossary, never an actor without a name."""

from __future__ import annotations

import re
from typing import Final

from .house_rules import Offences, Source, matching_lines, rule

# In halves, because the rules read this file, too.
ACTORS: Final = (
    *("wh" + rest for rest in ("o", "oever", "om", "omever", "ose")),
    *(start + end for start in ("some", "any", "every") for end in ("body", "one")),
    *("no" + "body", r"no[\s#_]+" + "one"),
)
KEY_OF_THE_CERTIFICATE: Final = '"wh' + 'ose"'  # a public key, which stays
ACTOR: Final = rf"(?i)(?<![a-z])({'|'.join(ACTORS)})(?![a-z])"
PROSE: Final = ("/run", "Makefile", ".py", ".md", ".j2", ".js", ".toml", ".txt", ".yml")


@rule(
    "Name the actor with a noun of the glossary in ARCHITECTURE.md: an attempt, a reader, a user.",
    guilty="# the attempt that was struck, and no" + "\n# o" + "ne else",
    files="*",
)
def actor_without_a_name(source: Source) -> Offences:
    if source.path == "LICENSE" or source.path.startswith("reports/examples/") or not source.path.endswith(PROSE):
        return
    lines = source.text.splitlines()
    if named := re.search(ACTOR, source.path):
        yield 1, f"{named[0]}: the name of the file"
    text = source.text.replace(KEY_OF_THE_CERTIFICATE, '"key"')
    for match in re.finditer(ACTOR, text):
        number = text.count("\n", 0, match.start()) + 1
        yield number, f"{' '.join(match[0].split())}: {lines[number - 1].strip()}"


@rule(
    "A decision has a title and three lines: Problem, Decision, Evidence.",
    guilty="# Decisions: points\n\n## Points are text\n\n- **Decision:** They are.\n",
    files="*DECISIONS.md",
)
def decision_without_its_four_lines(source: Source) -> Offences:
    title, *entries = re.split(r"^## ", source.text, flags=re.MULTILINE)
    form = re.compile(r".+\n\n- \*\*Problem:\*\* .+\n- \*\*Decision:\*\* .+\n- \*\*Evidence:\*\* .+\n*")
    yield from ((1, entry.splitlines()[0]) for entry in entries if not form.fullmatch(entry))
    if not entries or not title.startswith("# Decisions: "):
        yield 1, "begins with `# Decisions: ` and holds at least one"


@rule("Do it, or leave it out and say so to the owner.", guilty="# FIX" + "ME later")
def unfinished(source: Source) -> Offences:
    return matching_lines(source.text, r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")


@rule(
    "It is in no package index: name the file of the wheel, or by `install_command` the libraries of an extra.",
    guilty="# pip install -U 'sink" + "proof[kafka]'",
    files="*",
)
def looked_up_in_an_index(source: Source) -> Offences:
    """Also where a string goes on in the next line."""
    name = r"""[\s"'(]sinkproof(?![\w.*-]*\.whl|[\w/])"""
    for match in re.finditer(r"pip install\b[^;&|`#$]{0,60}?" + name, source.text):
        yield source.text.count("\n", 0, match.start()) + 1, " ".join(match[0].split())


@rule("Name neither a package registry's host nor a path of one machine.", guilty="'/ro" + "ot/x'", files="*")
def names_one_machine(source: Source) -> Offences:
    hosts = ("py" + "pi.", "pythonhost" + "ed.", "maven" + ".org", "npm" + "js", "proxy.golang" + ".", "crates" + ".io")
    return matching_lines(
        source.text, "|".join(map(re.escape, hosts)) + r"|(?<![\w.$}])/(work|farm|root)/|\.\./share[d]"
    )
