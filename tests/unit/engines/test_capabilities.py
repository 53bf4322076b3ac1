"""Requests with fields that an engine does not support."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.base import Request
from cachesim.engines.capabilities import (
    COMMON_FIELDS,
    DEFAULTS,
    IMAGES,
    INVALID,
    MARKS,
    Field,
    Flag,
    draw_batches,
    plain_name,
    scenario_names,
)
from cachesim.engines.chat_template import ChatMessage
from cachesim.engines.registry import ENGINES
from cachesim.model.hash_mixing import Rng
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.search.drawn_conversation import draw_conversation

SET = {
    "cache_prompt": False, "id_slot": 0, "user_starts": (0,), "chat": False, "byte_pos": 3, "n_keep": 4,
    "n_discard": 2, "n_cache_reuse": 4, "children_forced": ((1,),), "cancel_at": 3, "drafts": ((3, 2, 1),),
    "draft_else": 2, "messages": (ChatMessage("user", (1,)),), "seed": True, "stop": ("x",), "eog": (4,),
    "others": ((1,),), "shared": 2, "cancel_order": (1, 0), "cancel_place": 1, "children_drafts": (((3, 2, 1),),),
}  # fmt: skip
"""A value that is not the default for every field that an engine may not know."""


def test_the_tables_name_fields_of_a_request():
    names = {one.name for one in fields(Request)}
    assert names == {*DEFAULTS, "extra"} == COMMON_FIELDS | set(SET)
    assert all(engine.manual.takes - {IMAGES, INVALID} <= names - COMMON_FIELDS for engine in ENGINES.values())


@pytest.mark.parametrize("name", SET)
@pytest.mark.parametrize("engine", ["llama_cpp", "ik_llama", "mlx_lm"])
def test_a_field_that_is_not_in_the_table_is_refused_by_name(engine, name):
    kit, request = ENGINES[engine], Request((1, 2), **{name: SET[name]})
    if name in kit.manual.takes | MARKS:
        assert kit.manual.ignored(request) == []
        assert kit.manual.unread_marks(request) == ([] if name in kit.manual.takes else scenario_names([name]))
        kit.check_request(request)
        return
    with pytest.raises(BadInput, match="request field not supported by this engine: "):
        kit.check_request(request)


def test_the_field_of_messages_and_the_field_of_marks_have_different_names():
    with pytest.raises(BadInput, match=r"engine: chat \(supported: answers, .* and \d+ more\)$") as refused:
        ENGINES["llama_cpp"].check_request(Request((1, 2), messages=(ChatMessage("user", (1, 2)),)))
    assert "chat" not in refused.value.hint
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(("profile", "line", "name"), [
    ("mlx_lm@0.32.2", "A20/A20{n_cache_reuse=4}", "n_cache_reuse"), ("mlx_lm@0.32.2", "A20@0", "id_slot"),
    ("mlx_lm@0.32.2", "A20{n_keep=4}", "n_keep"), ("mlx_lm@0.32.2", "A20/A20!", "cache_prompt"),
    ("ik_llama@main", "A20{n_cache_reuse=4}", "n_cache_reuse"), ("ik_llama@main", "A20{seed=True}", "seed"),
    ("llama_cpp@b10587", "A20{seed=True}", "seed"),
])  # fmt: skip
def test_a_line_is_refused_with_the_request_and_the_name_as_it_is_written(capsys, profile, line, name):
    assert main(["run", line, "-p", profile, "--model", "A"]) == exits.BAD_INPUT
    err = capsys.readouterr().err
    number = line.count("/")
    assert err.startswith(f"cachesim: request {number}: request field not supported by this engine: {name} (supp")
    assert err.count("\n") == 1


@pytest.mark.parametrize("engine", ["llama_cpp", "ik_llama", "mlx_lm"])
def test_a_search_draws_nothing_that_would_be_refused(engine):
    kit = ENGINES[engine]
    for seed in range(60):
        try:
            scenario = draw_conversation(seed, engine).scenario(kit.line[-1])
        except BadInput:
            continue
        assert [kit.manual.ignored(step.request) for step in scenario.steps] == [[]] * len(scenario.steps)


def test_a_drawn_mark_stays_where_the_engine_looks_at_it():
    lines = [repr(draw_conversation(seed, "llama_cpp").scenario("llama_cpp@b10587")) for seed in range(20)]
    assert any("|" in line for line in lines)
    assert from_line("|A20").steps[0].request.user_starts == (0,)


LIST = Flag("drafts", "none", listed=True, choices=("none", "a", "b"))
ONE = Flag("size", 512)


@pytest.mark.parametrize(("flag", "before", "value", "after"), [
    (ONE, 64, 128, 128), (ONE, None, 128, 128), (LIST, None, "a", "a"), (LIST, "none", "a", "a"),
    (LIST, "a", "b", "a,b"), (LIST, "a", "none", "a"), (LIST, "a,b", "a", "a,b,a"),
])  # fmt: skip
def test_a_repeated_option_replaces_its_value_or_adds_to_its_list(flag, before, value, after):
    assert flag.added(before, value) == after


@pytest.mark.parametrize(("flag", "value", "word"), [
    (LIST, "a,b", None), (LIST, "a,x,y", "x"), (LIST, "x", "x"), (ONE, "any", None),
    (LIST._replace(listed=False), "a,b", "a,b"), (LIST._replace(listed=False), "b", None),
])  # fmt: skip
def test_the_first_word_that_is_not_allowed_is_named(flag, value, word):
    assert flag.unknown_word(value) == word


def test_an_option_is_known_by_all_its_names():
    flag = Flag("flash", True, spellings=("-fa", "--flash-attn"), also=("fast",), off=("--no-fa",))
    assert [*flag.names()] == [("flash", True), ("fa", True), ("flash_attn", True), ("fast", True), ("no_fa", False),
                               ("no_flash", False)]  # fmt: skip
    assert [*flag._replace(default=1, off=()).names()][-1] == ("fast", True)


@pytest.mark.parametrize(("default", "wrong", "wanted"), [
    (0, True, "a whole number"), (False, 1, "true or false"), (0.0, 1, "a number"), ("", 1, "a text"),
])  # fmt: skip
def test_a_field_has_values_of_one_type(default, wrong, wanted):
    field = Field("priority", default, "urgency")
    assert field.check(default) == default
    with pytest.raises(BadInput, match=f"priority: {wrong} must be {wanted}"):
        field.check(wrong)


def test_an_option_is_found_by_its_own_name_and_a_word_by_any_spelling():
    manual = ENGINES["llama_cpp"].manual
    assert manual.flag("ctx_size").name == "ctx_size" and manual.flag("ctx-size") is None
    assert manual.named("--ctx-size") == manual.named("-c") == (manual.flag("ctx_size"), True)
    assert manual.named("--no-context-shift") == (manual.flag("context_shift"), False)
    assert manual.named("--no-such-flag") is None


def test_batches_are_drawn_no_smaller_than_their_micro_batches():
    drawn = {draw_batches(Rng(seed)) for seed in range(60)}
    assert all(batch >= ubatch for batch, ubatch in drawn)
    assert {ubatch for _, ubatch in drawn} == {512, 64, 16, 4, 2, 1}
    assert {(512, 512), (512, 64), (64, 1), (2, 1)} <= drawn


@pytest.mark.parametrize(("word", "name"), [
    ("--ctx-checkpoints", "ctx_checkpoints"), ("-np", "np"), (" --a-b ", "a_b"), ("a_b", "a_b"), ("a-", "a_"),
])  # fmt: skip
def test_a_name_has_no_dashes(word, name):
    assert plain_name(word) == name


def test_what_a_server_would_ignore_is_named_as_scenarios_name_it():
    manual = ENGINES["ik_llama"].manual
    request = Request((1, -1), n_predict=-1, cancel_at=3, stop=("x",), extra={"other": 1})
    kept = replace(manual, takes=frozenset(), endless=False)
    assert sorted(kept.ignored(request)) == ["cancel_after", "n_predict = -1", "other", "stop", INVALID]
    assert replace(manual, takes=frozenset({INVALID, "stop", "cancel_at"}), endless=True).ignored(request) == ["other"]
    assert kept.ignored(Request((1,), n_predict=0)) == kept.ignored(Request((0, 1), n_predict=0)) == []
    assert kept.ignored(Request((1,), extra={manual.fields[0].name: 1, "other": 1})) == ["other"]
