"""Tests of the search for smaller settings: what a model cannot have is passed over."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.capabilities import Flag
from cachesim.engines.registry import BUILTIN
from cachesim.engines.shared.memory_use import MIB, MemoryForms, MemoryPart, MemoryQuestion, MemoryUse
from cachesim.engines.shared.model_sizes import known_sizes, real_model
from cachesim.tools.advise.agent_search import AgentSearch, agent_forms
from cachesim.tools.advise.agent_workload import recorded_workload
from cachesim.tools.memory import estimate as module
from cachesim.tools.memory.estimate import LowerSearch, _check_room, _given, _largest_context, estimate
from cachesim.tools.workload.shipped_sessions import shipped_sessions

ROOMS = (0, 1 << 20, 1 << 30, 16 << 30)     # [bytes]
DRAWN = 16
CONTEXT = 8192


def newest(engine):
    """Return the newest rule set of an engine."""
    return engine.newest or engine.line[-1]


def write_config(folder, number, head=0):
    """Write a config.json with drawn widths of heads, or with this width; return its path."""
    draw = Random(number)
    heads = draw.choice((1, 2, 4, 8))
    layers = draw.choice((["full_attention"], ["full_attention", "sliding_attention"],
                          ["full_attention", "linear_attention"]))  # fmt: skip
    data = {
        "num_attention_heads": heads * draw.choice((1, 4)), "num_key_value_heads": heads,
        "head_dim": draw.choice((draw.randrange(1, 512), 16 * draw.randrange(1, 20), 80, 112)), "hidden_size": 64,
        "layer_types": layers * 2, "num_hidden_layers": 2 * len(layers), "sliding_window": 128,
        "max_position_embeddings": CONTEXT, "linear_conv_kernel_dim": 4, "linear_num_key_heads": 2,
        "linear_num_value_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    }  # fmt: skip
    if draw.random() < 0.5:
        data["v_head_dim"] = draw.randrange(1, 512)
    if head:
        data |= {"head_dim": head, "v_head_dim": head}
    file = folder / f"{number}-{head}.json"
    file.write_text(json.dumps(data))
    return str(file)


def refusal(profile, model, room, settings=()):
    """Return the error of an estimate, "" if it has none."""
    try:
        estimate(profile, model, settings, room, CONTEXT)
    except BadInput as bad:
        return str(bad)
    return ""


def check_all(monkeypatch, words):
    """Compare, for these models, the errors of estimates with those of estimates without the search."""
    cases = [(newest(engine), real_model(word), room)
             for word in words for engine in BUILTIN.values() for room in ROOMS]  # fmt: skip
    found = [refusal(*case) for case in cases]
    with monkeypatch.context() as patched:
        patched.setattr(LowerSearch, "each", lambda search, use: [])
        patched.setattr(LowerSearch, "together", lambda search, use: [])
        assert found == [refusal(*case) for case in cases]
    assert found.count("") > len(found) // 2


@pytest.mark.long
def test_the_search_refuses_no_named_model(monkeypatch):
    check_all(monkeypatch, known_sizes())


def test_the_search_refuses_no_width_of_heads(monkeypatch, tmp_path):
    check_all(monkeypatch, [write_config(tmp_path, number) for number in range(DRAWN)])


@pytest.mark.parametrize("profile", ["llama_cpp", "ik_llama"])
def test_rows_of_a_width_that_no_block_divides_are_not_made_smaller(capsys, tmp_path, profile):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 84, "hidden_size": 64,
                                "num_hidden_layers": 2, "max_position_embeddings": CONTEXT}))  # fmt: skip
    for room, code in ((), exits.HOLDS), (("--memory", "0.001GiB"), exits.BROKEN):
        assert main(["memory", str(file), "-p", profile, *room, "--json"]) == code
        [found] = json.loads(capsys.readouterr().out)["memory"]
        flags = {change["flag"] for change in found["lower"]}
        assert "--ctx-size" in flags and not flags & {"--cache-type-k", "--cache-type-v"}
    assert main(["memory", str(file), "-p", profile, "-ctk", "q8_0"]) == exits.BAD_INPUT


def settings_found(engine, word, load, smaller):
    """True if settings for agents exist, or the error."""
    search = AgentSearch(newest(engine), word, 1 << 40, 1, load)
    try:
        return bool(search.fitted(agent_forms(engine)[1].smaller if smaller else {}))
    except BadInput as bad:
        return str(bad)


@pytest.mark.parametrize("name", [name for name, engine in BUILTIN.items()
                                  if (forms := engine.memory()) and forms.agents])  # fmt: skip
def test_settings_for_agents_exist_for_every_width_of_heads(tmp_path, name):
    load, engine, found = recorded_workload(shipped_sessions()[:1], "", 1, 0), BUILTIN[name], []
    for number in range(DRAWN):
        drawn, plain = write_config(tmp_path, number), write_config(tmp_path, number, 128)
        found.append(settings_found(engine, plain, load, False))
        assert settings_found(engine, drawn, load, False) == found[-1]
        smaller = settings_found(engine, drawn, load, True)
        assert smaller == settings_found(engine, plain, load, True) or "cannot be stored" in smaller or (
            "does not store heads" in smaller)  # fmt: skip
    assert True in found


class Forms(NamedTuple):
    """A server whose memory is the sum of its options [MiB], except "free"; an option of 0 has no limit."""

    lower: dict[str, tuple[int, int]]

    def use(self, ask):
        unlimited = next((name for name, value in ask.options.items() if not value), "")
        parts = tuple(MemoryPart(name, MIB, value, "units") for name, value in ask.options.items() if name != "free")
        return MemoryUse(token=0, window=0, state=0, checkpoint=0, parts=parts, unlimited=unlimited)


def search(room, least, **options):
    """Return a search with steps of 1, and the memory before. ``least``: smallest values."""
    forms = Forms({name: (1, value) for name, value in least.items()})
    ask = MemoryQuestion(real_model("qwen3"), options, rules=None, room=room * MIB)
    return LowerSearch(ask, forms, {name: 8 for name in options}), forms.use(ask)


@pytest.mark.parametrize(("room", "least", "options", "found"), [
    (10, {"a": 1, "b": 1}, {"a": 10, "b": 5}, [("a", 5)]),                # one is enough: no second is lowered
    (4, {"a": 2, "b": 1}, {"a": 10, "b": 5}, [("a", 2), ("b", 2)]),
    (4, {"a": 10, "b": 1}, {"a": 10, "b": 4, "c": 2}, []),                # a has no smaller value, b alone no room
    (6, {"a": 10, "b": 1, "c": 1}, {"a": 2, "b": 4, "c": 4}, [("b", 1), ("c", 3)]),
    (2, {"a": 2, "b": 2}, {"a": 10, "b": 5}, []),
    (4, {"free": 1, "a": 1}, {"free": 5, "a": 10}, [("a", 4)]),          # free saves nothing
])  # fmt: skip
def test_options_are_lowered_together_until_they_fit(room, least, options, found):
    lower, use = search(room, least, **options)
    assert [(one.option, one.after) for one in lower.together(use)] == found


def test_an_option_without_a_limit_comes_first_although_the_others_save():
    lower, use = search(20, {"a": 1, "b": 1}, a=10, b=0)
    assert [one.option for one in lower.each(use)] == ["b", "a"]


def test_values_that_fit_come_in_the_order_of_their_cost_and_others_by_total():
    lower, use = search(12, {"a": 1, "b": 1, "c": 4}, a=9, b=5, c=5)
    assert [(one.option, one.after, one.fits) for one in lower.each(use)] == [
        ("a", 2, True), ("b", 1, False), ("c", 4, False)]  # fmt: skip


@pytest.mark.parametrize("now, after", [(10, 5), (9, 5), (8, 4), (3, 2), (2, 1), (1, None), (0, None)])
def test_without_room_half_is_tried(now, after):
    """Half of what is above the smallest value, in whole steps, and always less than now."""
    lower, use = search(0, {"a": 1}, a=now, b=3)
    found = lower.lower("a", use) if now else lower.lower("a", use._replace(unlimited=""))
    assert (found and found.after) == after and (not found or (found.before, found.fits) == (now, None))


def test_without_room_the_largest_saving_comes_first():
    lower, use = search(0, {"a": 1, "b": 1, "free": 1}, a=4, b=20, free=40)
    assert [(one.option, one.before, one.after, one.total // MIB, one.fits) for one in lower.each(use)] == [
        ("b", 20, 10, 14, None), ("a", 4, 2, 22, None)]  # fmt: skip


@pytest.mark.parametrize("room, after, fits", [(0, 8, None), (20, 10, True), (11, 1, True), (10, 1, False)])
def test_an_option_without_a_limit_gets_one(room, after, fits):
    """The default, or with room as much as fits beside the others."""
    lower, use = search(room, {"b": 1}, a=10, b=0)
    assert lower.lower("b", use) == ("b", 0, after, (10 + after) * MIB, fits)


class Named(NamedTuple):
    """A server whose option "kind" has a size by its name; "none" does not start."""

    lower: dict[str, tuple[str, ...]]

    def use(self, ask):
        kind = ask.options["kind"]
        if kind == "none":
            raise BadInput("does not start")
        parts = (MemoryPart("rows", MIB, {"f16": 16, "q8": 8, "q4": 4}[kind], "units"),)
        return MemoryUse(token=0, window=0, state=0, checkpoint=0, parts=parts)


@pytest.mark.parametrize("room, kinds, now, after, fits", [
    (9, ("q8", "q4"), "f16", "q8", True), (5, ("q8", "q4"), "f16", "q4", True), (3, ("q8", "q4"), "f16", "q4", False),
    (0, ("q8", "q4"), "f16", "q8", None), (9, ("none", "q8"), "f16", "q8", True), (3, ("q8",), "q8", None, None),
    (3, ("none",), "f16", None, None), (3, ("q8",), "f16", "q8", False), (0, ("q8",), "f16", "q8", None),
])  # fmt: skip
def test_an_option_of_names_has_the_first_that_fits(room, kinds, now, after, fits):
    """The last if none fits, the first without room; one that does not start is passed over."""
    forms, ask = Named({"kind": kinds}), MemoryQuestion(real_model("qwen3"), {"kind": now}, None, room * MIB)
    found = LowerSearch(ask, forms, {}).lower("kind", forms.use(ask))
    assert found is None if after is None else (found.after, found.fits) == (after, fits)


@pytest.mark.parametrize(("engine", "model", "message"), [
    ("vllm", "deepseek-v3.2", "vllm: the memory of attention to the best rows is not known"),
    ("sglang", "deepseek-v4", "sglang: the memory of window and compressed rows is not known"),
    ("mlx_lm", "minimax-m3", "mlx_lm: the memory of attention to the best blocks of 16 rows is not known"),
])  # fmt: skip
def test_layers_whose_rows_have_no_known_size_are_refused(engine, model, message):
    assert refusal(newest(BUILTIN[engine]), real_model(model), 1 << 40) == message


def test_an_engine_without_known_sizes_is_refused(monkeypatch):
    monkeypatch.setattr(module, "engine_of", lambda profile: SimpleNamespace(name="own", memory=lambda: None))
    assert refusal("mlx_lm@0.32.2", real_model("qwen3"), 0) == "the sizes of own's caches are not known"


def test_options_that_change_only_sizes_have_the_type_of_their_default():
    flags = Flag("rows", 3, help="", least=1), Flag("kind", "f16", choices=("f16", "q8"), help="")
    forms = MemoryForms(use=None, flags=flags)
    engine = BUILTIN["llama_cpp"]
    assert _given(["parallel=2", "rows=5", "kind=q8"], engine, forms) == {"parallel": 2, "rows": 5, "kind": "q8"}
    for pair, message in (("rows=x", "rows: expected a number, found 'x'"), ("rows=", "found ''"),
                          ("kind=q3", "unknown kind 'q3'")):
        with pytest.raises(BadInput, match=message):
            _given([pair], engine, forms)


class Bounded(NamedTuple):
    """A server whose memory is its option "a" [MiB]; it does not start with less than 4."""

    lower: dict[str, tuple[int, int]]

    def use(self, ask):
        if ask.options["a"] < 4:
            raise BadInput("does not start")
        parts = (MemoryPart("rows", MIB, ask.options["a"], "units"),)
        return MemoryUse(token=0, window=0, state=0, checkpoint=0, parts=parts)


@pytest.mark.parametrize(("now", "room", "after", "fits"), [
    (9, 0, 5, None), (7, 0, 4, None), (6, 0, None, None), (9, 2, None, None),
])  # fmt: skip
def test_a_number_with_which_the_server_does_not_start_is_no_advice(now, room, after, fits):
    """Half of the present value without room, the least one if none fits."""
    forms, ask = Bounded({"a": (1, 1)}), MemoryQuestion(real_model("qwen3"), {"a": now}, None, room * MIB)
    found = LowerSearch(ask, forms, {}).lower("a", forms.use(ask))
    assert found is None if after is None else (found.after, found.fits) == (after, fits)


@pytest.mark.parametrize(("room", "context", "found"), [(20, 64, 17), (20, 9, 9), (9, 64, 6), (5, 64, 5), (6, 0, 5),
                                                      (20, 0, 5)])  # fmt: skip
def test_the_largest_context_is_that_of_the_model_or_what_fits(room, context, found):
    """In steps of 1 from the present one, beside 3 MiB of another part."""
    forms = Forms({"ctx": (1, 1)})
    model = real_model("qwen3")._replace(context=context)
    ask = MemoryQuestion(model, {"ctx": 5, "b": 3}, None, room * MIB)
    use = forms.use(ask)._replace(chosen={"ctx": 5})
    assert _largest_context(ask, forms, use, "ctx") == found


@pytest.mark.parametrize(("room", "found"), [(16, 16), (15, 12), (20, 19), (30, 19)])
def test_the_context_grows_in_the_steps_of_its_option_but_not_beyond_that_of_the_model(room, found):
    forms = Forms({"ctx": (7, 1)}) if found == 19 else Forms({"ctx": (4, 1)})
    ask = MemoryQuestion(real_model("qwen3")._replace(context=25), {"ctx": 12}, None, room * MIB)
    assert _largest_context(ask, forms, forms.use(ask)._replace(chosen={"ctx": 12}), "ctx") == found


def test_an_option_without_a_limit_never_gets_the_whole_memory():
    """Memory of 20 MiB for nothing but this part; less than 1 MiB is too little for its smallest value."""
    lower, use = search(20, {"b": 1}, b=0)
    assert lower.lower("b", use) == ("b", 0, 19, 19 * MIB, True)
    tiny = LowerSearch(lower.ask._replace(room=1), Forms({"b": (1, 0)}), {})
    assert tiny.lower("b", use) == ("b", 0, 0, 0, False)
    assert tiny._replace(ask=lower.ask._replace(room=MIB)).lower("b", use) == ("b", 0, 0, 0, False)


@pytest.mark.parametrize(("room", "after"), [(8, 5), (20, 5), (4, 1), (0, 5)])
def test_a_smaller_value_is_whole_steps_above_the_least_one(room, after):
    """9 is two steps of 4 above 1: one step less at most, although more fits; half of the steps without room."""
    forms, ask = Forms({"a": (4, 1)}), MemoryQuestion(real_model("qwen3"), {"a": 9}, None, room * MIB)
    assert LowerSearch(ask, forms, {}).lower("a", forms.use(ask)).after == after


def test_a_server_that_fills_its_memory_needs_a_size_and_another_none():
    engine = BUILTIN["vllm"]
    forms = engine.memory()
    assert forms.agents.filled
    with pytest.raises(BadInput, match="vllm fills the memory that it gets"):
        _check_room(engine, forms, {}, 0)
    _check_room(engine, forms, {}, 1)
    _check_room(engine, forms, {forms.agents.filled[0]: 5}, 0)
    _check_room(engine, replace(forms, agents=None), {}, 0)


def test_a_size_without_a_flag_is_named_by_its_option():
    spellings = {"size": ("-s",), "blocks": ("-b", "--blocks")}
    flags = [SimpleNamespace(name=name, spellings=words) for name, words in spellings.items()]
    engine = SimpleNamespace(name="mine", manual=SimpleNamespace(flags=flags))
    forms = SimpleNamespace(agents=SimpleNamespace(filled=("size", "blocks")))
    with pytest.raises(BadInput) as bad:
        _check_room(engine, forms, {}, 0)
    assert bad.value.hint == "--memory 32GiB, or size or --blocks N"
