"""Tests of the search for smaller settings: what a model cannot have is passed over."""

from __future__ import annotations

import json
from random import Random

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.registry import BUILTIN
from cachesim.engines.shared.memory_use import MIB, MemoryForms, MemoryPart, MemoryQuestion, MemoryUse
from cachesim.engines.shared.model_sizes import known_sizes, real_model
from cachesim.tools.advise.agent_search import AgentSearch, agent_forms
from cachesim.tools.advise.agent_workload import recorded_workload
from cachesim.tools.memory.estimate import LowerSearch, estimate
from cachesim.tools.workload.shipped_sessions import shipped_sessions

DRAWN = 8
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


ROOMS = (0, 1 << 20, 1 << 30, 16 << 30)     # [bytes]
LARGE = 1 << 60                             # everything fits: no search for smaller values


@pytest.mark.parametrize("models", [
    pytest.param(None, id="named", marks=pytest.mark.long), pytest.param(DRAWN, id="drawn")])  # fmt: skip
def test_the_search_refuses_no_model_that_has_a_size(tmp_path, models):
    """Whatever the room, an estimate has the error that it has without a search."""
    words = known_sizes()[::5] if models is None else [write_config(tmp_path, number) for number in range(models)]
    engines = [one for one in BUILTIN.values()
               if (forms := one.memory()) and not (forms.agents and forms.agents.filled)]  # fmt: skip
    found = []
    for model in map(real_model, words):
        for engine in engines:
            expected = refusal(newest(engine), model, LARGE)
            assert {refusal(newest(engine), model, room) for room in ROOMS} == {expected}
            found.append(expected)
    assert found.count("") > len(found) // 2


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


def use_of(parts, unlimited=""):
    """Return the memory of these parts [MiB]."""
    return MemoryUse(token=0, window=0, state=0, checkpoint=0, unlimited=unlimited, parts=tuple(
        MemoryPart(name, MIB, value, "units") for name, value in parts.items()))  # fmt: skip


def question(options, room):
    return MemoryQuestion(real_model("qwen3"), options, rules=None, room=room * MIB)


def sums(lower):
    """Return the sizes of a server whose memory is the sum of its options [MiB], except "free"; an option of 0 has no
    limit."""
    def use(ask):
        unlimited = next((name for name, value in ask.options.items() if not value), "")
        return use_of({name: value for name, value in ask.options.items() if name != "free"}, unlimited)

    return MemoryForms(use, lower=lower)


def search(room, least, **options):
    """Return a search with steps of 1, and the memory before. ``least``: smallest values."""
    forms = sums({name: (1, value) for name, value in least.items()})
    ask = question(options, room)
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


@pytest.mark.parametrize("room, kinds, now, after, fits", [
    (9, ("q8", "q4"), "f16", "q8", True), (5, ("q8", "q4"), "f16", "q4", True), (3, ("q8", "q4"), "f16", "q4", False),
    (0, ("q8", "q4"), "f16", "q8", None), (9, ("none", "q8"), "f16", "q8", True), (3, ("q8",), "q8", None, None),
    (3, ("none",), "f16", None, None), (3, ("q8",), "f16", "q8", False), (0, ("q8",), "f16", "q8", None),
])  # fmt: skip
def test_an_option_of_names_has_the_first_that_fits(room, kinds, now, after, fits):
    """The last if none fits, the first without room; one that does not start is passed over."""
    def use(ask):
        if ask.options["kind"] == "none":
            raise BadInput("does not start")
        return use_of({"rows": {"f16": 16, "q8": 8, "q4": 4}[ask.options["kind"]]})

    forms, ask = MemoryForms(use, lower={"kind": kinds}), question({"kind": now}, room)
    found = LowerSearch(ask, forms, {}).lower("kind", forms.use(ask))
    assert found is None if after is None else (found.after, found.fits) == (after, fits)


@pytest.mark.parametrize(("now", "room", "after", "fits"), [
    (9, 0, 5, None), (7, 0, 4, None), (6, 0, None, None), (9, 2, None, None),
])  # fmt: skip
def test_a_number_with_which_the_server_does_not_start_is_no_advice(now, room, after, fits):
    """Half of the present value without room, the least one if none fits."""
    def use(ask):
        if ask.options["a"] < 4:
            raise BadInput("does not start")
        return use_of({"rows": ask.options["a"]})

    forms, ask = MemoryForms(use, lower={"a": (1, 1)}), question({"a": now}, room)
    found = LowerSearch(ask, forms, {}).lower("a", forms.use(ask))
    assert found is None if after is None else (found.after, found.fits) == (after, fits)


def test_an_option_without_a_limit_never_gets_the_whole_memory():
    """Memory of 20 MiB for nothing but this part; less than 1 MiB is too little for its smallest value."""
    lower, use = search(20, {"b": 1}, b=0)
    assert lower.lower("b", use) == ("b", 0, 19, 19 * MIB, True)
    tiny = LowerSearch(lower.ask._replace(room=1), sums({"b": (1, 0)}), {})
    assert tiny.lower("b", use) == ("b", 0, 0, 0, False)
    assert tiny._replace(ask=lower.ask._replace(room=MIB)).lower("b", use) == ("b", 0, 0, 0, False)


@pytest.mark.parametrize(("room", "after"), [(8, 5), (20, 5), (4, 1), (0, 5)])
def test_a_smaller_value_is_whole_steps_above_the_least_one(room, after):
    """9 is two steps of 4 above 1: one step less at most, although more fits; half of the steps without room."""
    forms, ask = sums({"a": (4, 1)}), question({"a": 9}, room)
    assert LowerSearch(ask, forms, {}).lower("a", forms.use(ask)).after == after
