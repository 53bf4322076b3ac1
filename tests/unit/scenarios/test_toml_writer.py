"""Tests of written scenario files: reading them gives the original scenario."""

from __future__ import annotations

from cachesim.scenarios.load import load
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.word_lengths import normal
from cachesim.scenarios.option_checks import filled
from cachesim.scenarios.toml_writer import complete, to_toml

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


WHOLE = """\
schema = 2
id = "made"
profiles = ["a", "b"]

[server]
x = 0.25
y = true

[words]
S = 40
A = 9
r = 4
s = 4
B = 8

[titles]
S = "a \\"b\\""

[[request]]
prompt = "S.|A[2:5]"
answer = "r"
n_keep = -1
n_cmpl = 2
id_slot = 1
cache_prompt = false
cancel_after = 1
drafts = [[3, 1], [2, 2]]
answers = ["s"]

[[request]]
prompt = "B"
together = true
after = 2
n_predict = 3
priority = 2

[[request]]
do = "save"
id_slot = 2
file = "f"

[[request]]
do = "restart"
server = { parallel = 2, kv_unified = true }

[[request]]
do = "restore"
id_slot = 0
file = "f"
percent = 60

[[request]]
chat = ["system S", "user A", "assistant"]

[[request]]
do = "erase"
id_slot = 1

[[request]]
do = "lora"
scales = "0:1,2:0.5"
"""


def test_a_file_has_its_tables_in_order_with_an_empty_line_between_them():
    line = normal(parse("S40.|A9[2:5]>r4!@1{n_keep=-1 cancel_after=1 n_cmpl=2 answers=s4 drafts=3:1,2:2}/B8>3"
                        "{priority=2 together+2}/{save@2 f}/{restart parallel=2 kv_unified=True}/"
                        "{restore@0 f percent=60}/s:S+u:A+a:/{erase@1}/{lora 0:1,2:0.5}"))  # fmt: skip
    text = to_toml({"id": "made", "profiles": ["a", "b"]}, {"x": 0.25, "y": True}, line.words, line.steps,
                   {"S": 'a "b"'})  # fmt: skip
    assert text == WHOLE


def test_tables_without_entries_are_left_out():
    line = normal(parse("I4x2.A4"))
    assert to_toml({"id": "a.b"}, {}, line.words, line.steps) == (
        'schema = 2\nid = "a.b"\n\n[words]\nI = "4x2"\nA = 4\n\n[[request]]\nprompt = "I.A"\n')  # fmt: skip


def test_a_file_without_expectations_gets_a_table_at_its_end(tmp_path):
    path = tmp_path / "made.toml"
    begin = to_toml(HEAD, {}, {"A": 4}, parse("A4").steps).rstrip("\n")
    found = {"cache_n": [0], "prompt_n": [4], "broken": [], "status": [200], "checkpoints": [[]]}
    table = ['[expect."llama_cpp@b10587"]', "cache_n = [0]", "prompt_n = [4]", "checkpoints = [[]]", "completed = true"]
    for end in ("\n", "\r\n"):
        for last in ("", end):
            text = begin.replace("\n", end) + last
            path.write_bytes(text.encode())
            assert complete(path, "llama_cpp@b10587", found)
            added = end.join([*([] if last else [""]), "", *table, ""])
            assert path.read_bytes().decode() == text + added


def test_keys_are_added_below_the_header_of_a_table_that_ends_the_file(tmp_path):
    path = tmp_path / "made.toml"
    text = to_toml(HEAD, {}, {"A": 4}, parse("A4").steps) + '[expect."llama_cpp@b10587"]'
    for end in ("\n", "\r\n"):
        path.write_bytes(text.replace("\n", end).encode())
        assert complete(path, "llama_cpp@b10587", {"cache_n": [0], "broken": [0], "status": [500]})
        added = end.join(["", "cache_n = [0]", "broken = [0]", "status = [500]", "completed = true", ""])
        assert path.read_bytes().decode() == text.replace("\n", end) + added


def test_missing_top_level_keys_are_added_above_the_profiles(tmp_path):
    path = tmp_path / "made.toml"
    text = to_toml(HEAD, {}, {"A": 4}, parse("A4").steps)
    path.write_text(text)
    head = {"rules": ["../my.py"], "title": "another"}
    assert complete(path, "llama_cpp@b10587", {"cache_n": [0]}, head)
    added = '\n[expect."llama_cpp@b10587"]\ncache_n = [0]\ncompleted = true\n'
    assert path.read_text() == text.replace("profiles = ", 'rules = ["../my.py"]\nprofiles = ') + added


def test_a_key_is_added_above_profiles_in_the_first_line(tmp_path):
    path = tmp_path / "made.toml"
    path.write_text('profiles = ["llama_cpp@b10587"]\n')
    assert complete(path, "llama_cpp@b10587", {"cache_n": [0]}, {"title": "t"})
    assert path.read_text().startswith('title = "t"\nprofiles = ["llama_cpp@b10587"]\n\n[expect.')
