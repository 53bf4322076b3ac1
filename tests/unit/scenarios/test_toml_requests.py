"""Tests of client behaviour in scenario files: how it is read, and single-line errors with their place."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.base import Draft
from cachesim.engines.llama_cpp import MANUAL
from cachesim.engines.llama_cpp.flags import SPEC_TYPES as ENGINE_SPEC_TYPES
from cachesim.engines.llama_cpp.flags import Options
from cachesim.engines.llama_cpp.memory.model_layout import MROPE, RECORDED
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.scenarios.notation.tree import Piece
from cachesim.scenarios.option_checks import check_model, parse_settings
from cachesim.scenarios.runner import placed
from cachesim.scenarios.schema import Action, Expect

FULL = """\
id = "full"
title = "everything"
source = ["cachesim"]
why = "to be spoilt"
engine = "llama_cpp"
model = "GGGA"
profiles = ["llama_cpp@b10587"]
[server]
spec_type = "draft-simple"
spec_draft_n_max = 4
model_draft = "mamba2"
[words]
S = 40
r = 6
s = 6
[[request]]
prompt = "S"
answer = "r"
n_keep = -1
n_discard = 5
n_cache_reuse = 8
n_cmpl = 2
answers = ["s"]
drafts = [[3, 3], [2, 0]]
draft_else = 1
[[request]]
prompt = "S[:9]"
n_predict = 4
cancel_after = 3
together = true
after = 2
[[request]]
do = "save"
id_slot = 0
file = "a"
[[request]]
do = "restart"
why = "all is gone"
[[request]]
do = "restore"
id_slot = 0
file = "a"
[[request]]
do = "erase"
id_slot = 0
[expect."llama_cpp@b10587"]
slots = [0, 1, 0, 0, 0, 0]
status = [200, { either = [200, 500] }, 200, 200, 200, 200]
entries = [0, 0, 0, 0, 0, 0]
died = [1]
why = "freedom"
"""


def write(folder, text):
    file = folder / "full.toml"
    file.write_text(text)
    return file


def test_a_file_with_everything(tmp_path):
    scenario = load(write(tmp_path, FULL))
    first, second, save, restart, restore, erase = scenario.steps
    request = first.request
    assert (request.n_keep, request.n_discard, request.n_cache_reuse, request.n_cmpl) == (-1, 5, 8, 2)
    assert request.children_forced == (tuple(range(2_001_000, 2_001_006)),)
    assert (first.drafts, request.draft_else, first.together) == (((3, 3), (2, 0)), 1, False)
    assert (second.request.cancel_at, second.together, second.after) == (9 + 3 - 1, True, 2)
    assert [step.action for step in (save, restart, restore, erase)] == [
        Action("save", 0, "a"), Action("restart"), Action("restore", 0, "a"), Action("erase", 0)
    ]
    assert [step.prompt for step in scenario.steps] == ["S", "S[:9]", "save@0 a", "restart", "restore@0 a", "erase@0"]
    assert restart.why == "all is gone" and save.request.prompt == ()
    assert scenario.expect["llama_cpp@b10587"] == Expect(
        slots=((0,), (1,), (0,), (0,), (0,), (0,)), status=((200,), (200, 500), *(((200,),) * 4)),
        entries=((0,),) * 6, died=(1,), why="freedom",
    )
    assert scenario.server["model_draft"] == "mamba2"


def test_a_hang_up_in_the_prompt_needs_one_chunk(tmp_path):
    text = FULL.replace("cancel_after = 3", "cancel_after = 0")
    assert load(write(tmp_path, text)).steps[1].request.cancel_at == 1


SPOILT = [
    ("n_keep = -1", "n_keep = -2", ":19: n_keep is -2"),
    ("n_discard = 5", "n_discard = 5.5", ":20: n_discard must be an integer"),
    ("n_cache_reuse = 8", "n_cache_reus = 8", ":21: unknown key 'n_cache_reus' (did you mean 'n_cache_reuse'?)"),
    ('answers = ["s"]', 'answers = ["s", "s"]', ":23: answers has 2 entries, expected at most 1: "),
    ('answers = ["s"]', 'answers = ["s[:3]"]', ":23: every completion has 6 tokens"),
    ('answers = ["s"]', 'answers = ["t"]', ":23: word 't' has no length"),
    ('answers = ["s"]', 'answers = "s"', ":23: answers must be a list"),
    ("[2, 0]", "[2, 3]", ":24: drafts: [2, 3] must be [drafted, accepted]"),
    ("[2, 0]", "[2]", ":24: drafts: [2] must be [drafted, accepted]"),
    ("[2, 0]", "2", ":24: drafts: 2 is not a list"),
    ("draft_else = 1", "draft_else = true", ":25: draft_else must be an integer"),
    ("cancel_after = 3", "cancel_after = 4", ":29: cancel_after is 4, but the answer ends after 4 tokens"),
    ("together = true\n", "", ":30: after counts from the previous request"),
    ("draft_else = 1", "together = true", ":25: together needs a request before it"),
    ('do = "save"', 'do = "safe"', ":33: unknown server action 'safe' (did you mean 'save'?)"),
    ('do = "erase"', 'do = "erase"\nfile = "a"', ": unknown key 'file'"),
    ('do = "restart"', 'do = "restart"\nid_slot = 0', ": unknown key 'id_slot'"),
    ('do = "save"\nid_slot = 0', 'do = "save"', ":32: id_slot is missing"),
    (
        'do = "save"\nid_slot = 0\nfile = "a"', 'do = "save"\nid_slot = 0\nfile = "b"',
        ":42: file 'a' was not saved before",
    ),
    ('file = "a"', 'file = "../a"', ":35: file '../a': expected 1 to 64 letters"),
    ("slots = [0,", "slots = [", ":47: slots has 5 entries for 6 requests"),
    ("died = [1]", "died = [7]", ":50: died names request 7, there are 6"),
    ('"draft-simple"', '"draft-simpel"', ":9: unknown spec_type 'draft-simpel' (did you mean 'draft-simple'?)"),
    ('"draft-simple"', "3", ":9: spec_type must be a string, not 3"),
    ('"mamba2"', '"mamba3"', ":11: "),
]


@pytest.mark.parametrize(("good", "bad", "told"), SPOILT, ids=lambda text: text[:24])
def test_a_spoilt_file(tmp_path, good, bad, told):
    assert good in FULL
    file = write(tmp_path, FULL.replace(good, bad, 1))
    with pytest.raises(BadInput) as caught:
        load(file)
    assert told in str(caught.value).removeprefix(str(file)) and "\n" not in str(caught.value)


def test_what_the_line_has_no_sign_for_stands_in_braces(tmp_path):
    scenario = load(write(tmp_path, FULL))
    line = repr(scenario)
    assert line == (
        "S40>r6{n_keep=-1 n_discard=5 n_cache_reuse=8 n_cmpl=2 draft_else=1 answers=s6 drafts=3:3,2:0}"
        "/S[:9]>4{cancel_after=3 together+2}/{save@0 a}/{restart}/{restore@0 a}/{erase@0}"
    )
    again = from_line(line, model=scenario.model, profiles=scenario.profiles, server=scenario.server)
    assert [replace(step, why="") for step in scenario.steps] == list(again.steps)


def test_strings_on_the_command_line():
    assert parse_settings(["spec_type=ngram-simple", "model-draft=llama"]) == {
        "spec_type": "ngram-simple", "model_draft": "llama"
    }
    with pytest.raises(BadInput, match="did you mean 'draft-mtp'"):
        parse_settings(["spec_type=draft-mpt"])


def test_an_architecture_may_precede_the_layers():
    check_model("qwen35-GGGA")
    with pytest.raises(BadInput, match="'qwen36-GGGA'"):
        check_model("qwen36-GGGA")


def test_names_are_those_of_the_engine():
    assert set(MANUAL.defaults) == {field.name for field in fields(Options)}
    assert (MANUAL.flag("spec_type").choices, set(MANUAL.models), MANUAL.architectures) == (
        ENGINE_SPEC_TYPES, set(RECORDED), MROPE)


class Server:
    """As much of a server as a draft's place depends on."""

    def __init__(self, exact, n_rs_seq):
        self.exact, self.n_rs_seq, self.sequences = exact, n_rs_seq, self

    def reevaluates_draft(self, wrong):
        return self.exact and wrong > self.n_rs_seq


@pytest.mark.parametrize(
    ("exact", "n_rs_seq", "places"),
    [(False, 0, [40, 44, 45]), (True, 0, [40, 44, 46]), (True, 3, [40, 44, 45])],
    ids=["cut", "replayed", "rolled back"],
)
def test_drafts_begin_where_the_iteration_before_ended(tmp_path, exact, n_rs_seq, places):
    text = FULL.replace("[2, 0]", "[2, 0], [1, 1]")
    step = load(write(tmp_path, text)).steps[0]
    drafts = placed(step, Server(exact, n_rs_seq)).drafts
    assert drafts == tuple(Draft(at, *pair) for at, pair in zip(places, [(3, 3), (2, 0), (1, 1)], strict=True))


CHAT = """\
id = "full"
title = "a chat"
source = ["cachesim"]
why = "its messages are texts"
engine = "vllm"
model = "A"
profiles = ["vllm@0.33.0"]
[words]
S = 40
U = 9
[[request]]
chat = ["system S", "user U[2:]", "assistant "]
priority = 3
[[request]]
prompt = "S.U"
"""


def test_a_request_is_a_chat_or_a_prompt(tmp_path):
    chat, prompt = (step.asked for step in load(write(tmp_path, CHAT)).steps)
    assert chat.chat == (("system", (Piece("S"),)), ("user", (Piece("U", start=2),)), ("assistant", ()))
    assert (chat.prompt, chat.extra) == ((), (("priority", 3),))
    assert (prompt.prompt, prompt.chat, prompt.extra) == ((Piece("S"), Piece("U")), (), ())


@pytest.mark.parametrize(("good", "bad", "told"), [
    ('"system S"', '"sytem S"', ":12: unknown role 'sytem' (did you mean 'system'?)"),
    ('"system S"', '"S"', ":12: unknown role 'S' (system, "),
    ("priority = 3", 'prompt = "S"', ":12: a request has a prompt or a chat, not both"),
    ("U[2:]", "V", ":12: word 'V' has no length"), ("U[2:]", "U[2:10]", ":12: slice U[2:10] is out of range"),
    ('"user U[2:]"', '""', ":12: chat must be a list of strings with at least one entry"),
    ('"user U[2:]"', "3", ":12: chat must be a list of strings with at least one entry"),
    ('"system S", "user U[2:]", "assistant "', "", ":12: chat must be a list of strings with at least one entry"),
    ("priority = 3", 'priority = "x"', ":13: priority: 'x' must be a whole number"),
    ('"S.U"', '"S.V"', ":15: word 'V' has no length"), ('"S.U"', '"S.U[:10]"', ":15: slice U[0:10] is out of range"),
])  # fmt: skip
def test_a_spoilt_chat(tmp_path, good, bad, told):
    assert good in CHAT
    file = write(tmp_path, CHAT.replace(good, bad, 1))
    with pytest.raises(BadInput) as caught:
        load(file)
    assert str(caught.value).removeprefix(str(file)).startswith(told)


def test_an_empty_prompt_is_for_an_engine_that_answers_it(tmp_path):
    text = FULL.partition("[server]")[0] + '[words]\nS = 4\n[[request]]\nprompt = ""\n[[request]]\nprompt = "S"\n'
    with pytest.raises(BadInput, match=":11: prompt must not be empty"):
        load(write(tmp_path, text))
    other = text.replace("llama_cpp@b10587", "ik_llama@main").replace("llama_cpp", "ik_llama")
    empty, full = load(write(tmp_path, other)).steps
    assert (empty.asked.prompt, full.asked.prompt) == ((), (Piece("S"),))
