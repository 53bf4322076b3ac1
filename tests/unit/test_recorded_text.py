"""``python -m tests.recorded_text`` runs every program below tests/unit that writes recorded text."""

from __future__ import annotations

import re

from tests.recorded_text import UNIT, WRITERS, chosen, files


def test_every_program_of_the_unit_tests_is_listed_with_its_files():
    texts = {file.relative_to(UNIT).with_suffix("").as_posix().replace("/", "."): file.read_text("utf-8")
             for file in UNIT.rglob("*.py")}  # fmt: skip
    programs = [name for name, text in texts.items()
                if re.search(rf"python -m\s+tests\.unit\.{name}\b", text)
                and re.search(r"\brewrites\b|intended\s+change", text)]  # fmt: skip
    assert sorted(programs) == sorted(WRITERS)
    written = [file for patterns in WRITERS.values() for file in files(patterns)]
    assert all(map(files, WRITERS.values())) and len(written) == len(set(written))


def test_a_text_chooses_programs_by_their_names_or_those_of_their_files():
    assert chosen() == [*WRITERS] and chosen("qqq") == []
    assert chosen("tools/rulebook/") == ["tools.printed_outputs"] and chosen("run.reports") == ["tools.run.reports"]
