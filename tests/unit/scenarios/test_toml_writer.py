"""Tests of written scenario files: reading them gives the original scenario."""

from __future__ import annotations

from cachesim.scenarios.load import load
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.word_lengths import normal
from cachesim.scenarios.option_checks import filled
from cachesim.scenarios.toml_writer import to_toml

HEAD = {
    "id": "made", "title": 'a "title"', "source": ["cachesim"], "why": "none", "engine": "llama_cpp", "model": "GGGA",
    "profiles": ["llama_cpp@b10587"],
}  # fmt: skip
EVERYTHING = (
    "S40.|A9[2:5]>r4!@1{n_keep=-1 n_discard=5 n_cache_reuse=8 n_cmpl=2 cancel_after=1 draft_else=3 seed=True"
    " answers=s4 drafts=3:1,2:2}/B8>3{task=infill together+2}/{save@2 f}/{restart parallel=2 kv_unified=True}"
    "/{restore@0 f percent=60}/s:S+u:A+a:/{erase@1}"
)


def read_back(tmp_path, text, server):
    line = normal(parse(text))
    (tmp_path / "made.toml").write_text(to_toml(HEAD, server, line.words, line.steps))
    return line, load(tmp_path / "made.toml")


def test_everything_that_can_be_asked_is_read_back(tmp_path):
    server = filled({"parallel": 3, "kv_unified": True, "slot_prompt_similarity": 0.25})
    line, scenario = read_back(tmp_path, EVERYTHING, server)
    assert scenario.line == line
    assert dict(scenario.server) == server and (scenario.title, scenario.model) == ('a "title"', "GGGA")


def test_titles_of_words_are_read_back(tmp_path):
    line, titles = normal(parse("S4.A5/S")), {"S": 'the "system" <b>', "A": "chat"}
    (tmp_path / "made.toml").write_text(to_toml(HEAD, {}, line.words, line.steps, titles))
    assert load(tmp_path / "made.toml").titles == titles


def test_what_is_not_given_is_not_written(tmp_path):
    read_back(tmp_path, "A4", {})
    text = (tmp_path / "made.toml").read_text()
    assert text.startswith("schema = 2\n") and "[server]" not in text and text.endswith('[[request]]\nprompt = "A"\n')
