"""The part of the page about servers with a block pool states what the lines contain."""

from __future__ import annotations

import pytest

from tests.workloads.blocks import BEFORE, blocks_part, parts, replaced
from tests.workloads.grid import RULES_BLOCKS, SETTINGS_BLOCKS, SETTINGS_TREES, columns_blocks


def line(setting="block size 528", kind="hybrid", session="a", **more):
    return {"session": session, "rules": next(iter(RULES_BLOCKS)), "kind": kind, "setting": setting, "sessions": 1,
            "agents": 0, "requests": 10, "answered": 10, "refused": 0, "died": 0, "wrong": None, "undecided": None,
            "predicted": 0, "unlimited": None, "prompt": 1000, "evaluated": 120, "least": 100, "kept": 0,
            "restored": 0, "loaded": 880, "generated": 5, "peak_checkpoints": 0.0, "peak_cache": 0.0, "lost": None,
            **more}  # fmt: skip


def row(text, setting):
    return next(one for one in text.splitlines() if one.startswith(f"| {setting} |"))


def test_a_cell_has_the_share_and_the_distance_from_the_bound():
    text = blocks_part([line(), line(session="b", evaluated=140)])
    assert row(text, "block size 528").endswith("| 13.00 (+30.0 %) |") and "not run" in row(text, "block size 16")
    assert "Answers were not judged." in text


def test_a_cell_without_all_sessions_says_so():
    text = blocks_part([line(), line(session="b"), line("block size 16", refused=2)])
    assert row(text, "block size 16").endswith("| 12.00 [2 unanswered] (+20.0 %, 1 sessions) |")


def test_the_mamba_mode_all_is_a_row_of_the_last_release_that_has_it():
    text = blocks_part([line("528, Mamba mode all", rules="vllm 0.31.0", evaluated=130)])
    assert row(text, "528, Mamba mode all").startswith("| 528, Mamba mode all | 0.31.0 |")
    assert row(text, "528, Mamba mode all").endswith("| 13.00 (+30.0 %) |") and "The bound" not in text


def test_judged_answers_are_counted():
    assert "Of 20 judged answers (2 runs of a session; no column was judged completely) 3 are wrong." in blocks_part(
        [line(wrong=1), line(session="b", wrong=2)])  # fmt: skip


def test_the_part_is_replaced_in_its_place():
    page, first, second = f"# Page\n\n{BEFORE}\nrest\n", blocks_part([line()]), blocks_part([line(evaluated=999)])
    once = replaced(page, first)
    assert once.index(first) < once.index(BEFORE) and replaced(once, second) == replaced(page, second)


@pytest.mark.parametrize("column", list(columns_blocks()), ids=lambda one: f"{one.kind}-{one.setting}")
def test_every_cell_has_options_of_its_engine(column):
    from tests.workloads.grid import has

    every = SETTINGS_BLOCKS | SETTINGS_TREES
    assert column.setting in every[column.rules] and has(column.profile, column.given)


def test_each_engine_has_its_part_if_it_has_lines():
    tree = line("extra buffer", rules="sglang 0.5.23", evaluated=150)
    assert [part.split("\n")[0] for part in parts([line(), tree])] == [
        "## vLLM: block size and retention", "## SGLang: chunks, states and eviction"]  # fmt: skip
    [text] = parts([tree])
    assert row(text, "extra buffer").endswith("| not run | not run | not run | 15.00 (+50.0 %) |")
    assert parts([]) == []
