"""A document names a build, or speaks of the newest one. Where it says that a build is the newest, the next build makes
it wrong."""

from __future__ import annotations

import re

import pytest

from cachesim.engines.registry import BUILTIN
from tests.docs.examples import BLOCK
from tests.docs.fields import without_fields
from tests.shared import ROOT

DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "cachesim").rglob("*.md"), *(ROOT / "scenarios").rglob("*.md")]
DATED = ("CHANGELOG.md", "WORKLOADS.md")     # what was so on a day: a row of the measured table is called `latest`
TEXTS = {str(file.relative_to(ROOT)): file.read_text("utf-8") for file in DOCUMENTS if file.name not in DATED}
BUILDS = {name: engine.line[-1].partition("@")[2] for name, engine in BUILTIN.items()}
SENTENCE = re.compile(r"(?<=[.;:])\s+|\n\s*\n|\n(?=[|#>*-])")

CODE = re.compile(r"`[^`]*`")


def called_newest(text: str, build: str) -> list[str]:
    """Return the sentences that name this build and call something the newest, outside of computed numbers and
    outputs."""
    named, words = re.compile(rf"(?<![\w.-]){re.escape(build)}(?![\w-])"), re.compile(r"\b(newest|latest)\b")
    prose = without_fields(BLOCK.sub("", text))
    return [one for one in SENTENCE.split(prose) if named.search(one) and words.search(CODE.sub("", one))]


@pytest.mark.parametrize("engine", BUILTIN)
def test_no_document_calls_a_build_the_newest(engine: str) -> None:
    found = {name: called_newest(text, BUILDS[engine]) for name, text in TEXTS.items()}
    assert {name: sentences for name, sentences in found.items() if sentences} == {}


def test_such_a_sentence_is_found() -> None:
    text = "A first. The newest\nbuild is b7 today. The default is the newest, <!--= newest -->b7<!--/-->. b7 is old."
    assert called_newest(text, "b7") == ["The newest\nbuild is b7 today."]
    assert called_newest("| b7 | old |\n| b8 | the newest |\n", "b7") == []
