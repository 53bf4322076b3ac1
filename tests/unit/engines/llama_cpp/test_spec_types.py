"""Kinds of drafts per build, and the first build with rollback planes of a recurrent memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cachesim.base.errors import NotInBuild
from cachesim.cli.main import main
from cachesim.engines.base import Draft
from cachesim.engines.llama_cpp import start
from cachesim.engines.llama_cpp.profiles import LINE, PROFILES
from cachesim.engines.llama_cpp.rules import seq_rm_and_state
from cachesim.events import Log
from tests.unit.engines.llama_cpp.talk import Talk, word

CRASHES = Path(__file__).resolve().parents[4] / "scenarios/llama_cpp/crash"
D15 = str(CRASHES / "llama-25278-short-ubatch-assertion-qwen35mtp.toml")
MTP_SINCE = 9180           # #22673
NGRAM_SINCE = 7990         # #18471, of 2026-01-28; the next build recorded is b8152
CKPT_SINCE = 8842          # #19493
SHORTER_SINCE = 9235       # #23269: drafts of 3 tokens without a flag, of 16 before


def build(name):
    text = PROFILES[name].build
    return int(text[1:]) if text.startswith("b") else 1 << 30


def begin(name, spec_type, model="GGGA+M"):
    return start(name, model, {"ctx_size": 256, "spec_type": spec_type, "model_draft": "llama"}, "none", Log())


@pytest.mark.parametrize("name", PROFILES)
def test_a_head_that_drafts_came_with_its_planes(name):
    if build(name) > MTP_SINCE:
        assert begin(name, "draft-mtp").core.settings.sizes.n_rs_seq == (3 if build(name) >= SHORTER_SINCE else 16)
    else:
        with pytest.raises(NotInBuild, match=f"'draft-mtp' is not in {name} "):
            begin(name, "draft-mtp")


@pytest.mark.parametrize("name", LINE)
def test_removals_use_rollback_planes_if_there_are_any(name):
    rules = PROFILES[name]
    planes = rules.rs_planes("draft-mtp", 3, True).value
    goes = rules.rs_back(1, planes, 0, 1).value
    assert (planes, goes) == ((3, True) if build(name) > MTP_SINCE else (0, False))
    refused = rules.rs_rm(41, 41, 1 << 31, True).value
    assert refused is not (build(name) > MTP_SINCE or rules.rs_rm is seq_rm_and_state.rs_rm_1)


@pytest.mark.parametrize("name", LINE)
def test_drafts_from_the_text_itself(name):
    if build(name) < NGRAM_SINCE:
        with pytest.raises(NotInBuild):
            begin(name, "ngram-simple", "GA")
        return
    assert begin(name, "ngram-simple", "AA").core.settings.drafts
    assert begin(name, "ngram-simple", "GA").core.settings.drafts == (build(name) > CKPT_SINCE)


def test_a_recurrent_model_gets_no_drafts_before_they_could_be_undone():
    talk = Talk("GA", profile="b8450", spec_type="ngram-simple")
    answer = talk.ask(word("A", 40), 6, forced=word("B", 6), drafts=(Draft(40, 3, 0),))
    assert (answer.draft_n, talk.right(answer)) == (0, True)


@pytest.mark.long
def test_bisect_and_why_report_a_missing_kind_of_draft(capsys):
    assert main(["bisect", D15, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["requests"][0]
    absent = {one["profile"] for one in first["outcomes"] if one["status"] is None}
    assert absent & {*PROFILES} == {name for name in PROFILES if build(name) < MTP_SINCE}
    turn = first["turns"][0]
    assert (turn["new"], turn["was"]["cache_n"]) == ("llama_cpp@b9230", None)
    assert main(["bisect", D15, "-v"]) == 0
    assert "not run by b1573 (2023-11-27), llama_cpp@b1573" in capsys.readouterr().out


def test_run_refuses_a_missing_kind_of_draft(capsys):
    assert main(["run", D15, "-p", "llama_cpp@b6160"]) == 2
    assert "spec_type 'draft-mtp' is not in llama_cpp@b6160 (b6160)" in capsys.readouterr().err
