"""A document names a build, or speaks of the newest one. Where it says that a build is the newest, the next build makes
it wrong."""

from __future__ import annotations

import re
from typing import Iterable

from cachesim.engines.registry import BUILTIN
from tests.docs.examples import BLOCK
from tests.docs.fields import without_fields
from tests.shared import ROOT

DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "cachesim").rglob("*.md"), *(ROOT / "scenarios").rglob("*.md")]
DATED = ("CHANGELOG.md", "WORKLOADS.md")     # what was so on a day: a row of the measured table is called `latest`
BUILDS = [build for engine in BUILTIN.values() for name in engine.line
          if re.search(r"\d", build := name.partition("@")[2])]  # fmt: skip
"""Main-branch builds; `main` is a word, too."""
SENTENCE = re.compile(r"(?<=[.;:])\s+|\n\s*\n|\n(?=[|#>*-])")
CODE = re.compile(r"`[^`]*`")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
NEWEST = re.compile(r"\b(newest|latest)\b")


def called_newest(text: str, builds: Iterable[str]) -> list[str]:
    """Return the sentences that name one of these builds and call something the newest, outside of computed numbers and
    outputs."""
    named = re.compile(rf"(?<![\w.-])({'|'.join(map(re.escape, builds))})(?![\w-])")
    prose = COMMENT.sub("", without_fields(BLOCK.sub("", text)))
    spoken = (one for one in SENTENCE.split(prose) if NEWEST.search(CODE.sub("", one)))
    return [one for one in spoken if named.search(one)]


def test_no_document_calls_a_build_the_newest() -> None:
    texts = {file: file.read_text("utf-8") for file in DOCUMENTS if file.name not in DATED}
    assert len(texts) > 20
    found = {str(file.relative_to(ROOT)): called_newest(text, BUILDS) for file, text in texts.items()}
    assert {name: sentences for name, sentences in found.items() if sentences} == {}


def test_such_a_sentence_is_found() -> None:
    text = "A first. The newest\nbuild is b7 today. The default is the newest, <!--= newest -->b7<!--/-->. b7 is old."
    assert called_newest(text, ["b7", "b8"]) == ["The newest\nbuild is b7 today."]
    assert called_newest("| b7 | old |\n| b8 | the newest |\n", ["b7"]) == []
