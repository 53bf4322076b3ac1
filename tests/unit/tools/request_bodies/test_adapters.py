"""Adapters in request bodies: prompts under other lists are not reusable, and the simulated server has them."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cachesim.scenarios.load import load_text
from cachesim.tools.request_bodies.body import Body
from cachesim.tools.request_bodies.import_bodies import ImportOptions, import_bodies
from cachesim.tools.request_bodies.import_scenario import adapter_keys, scales_text
from cachesim.tools.request_bodies.report import bodies_report
from tests.unit.tools.request_bodies.made import LONG, chat, found


def raw(lora=None, text=LONG):
    """Return a completion of llama-server with this list of adapters."""
    return {"prompt": text, "n_predict": 4, **({} if lora is None else {"lora": lora})}


def on(*numbers, scale=1.0):
    return [{"id": number, "scale": scale} for number in numbers]


def reusable(got):
    return [row["reusable"] for row in got["requests"]]


def shown(got):
    console = Console(file=io.StringIO(), width=200, color_system=None)
    console.print(bodies_report(got, "", False))
    return console.file.getvalue()


@pytest.mark.parametrize("first, second", [(on(0), on(1)), (on(0), on(0, scale=0.5)), (on(0), on(0, 1)),
                                           (on(0), on(0, scale=0)), (on(0), on(0, scale=-1))])  # fmt: skip
def test_the_same_prompt_under_other_adapters_is_not_reusable(tmp_path, first, second):
    got = found(tmp_path, raw(first), raw(second), raw(first))
    tokens = got["requests"][0]["tokens"]
    assert reusable(got) == [0, 0, tokens] and [row["simulated"] for row in got["requests"]] == [0, 0, 0]
    assert (got["requests"][1]["cause"], got["requests"][1]["path"]) == ("adapters", "lora")
    assert [row["again"] for row in got["requests"]] == [0, tokens, 0]
    assert "Other adapters" in shown(got)


def test_the_same_adapters_in_other_words_are_the_same(tmp_path):
    got = found(tmp_path, raw(on(0)), raw([*on(1, scale=0), *on(0)]), raw([{"id": 0, "scale": 9}, *on(0)]))
    tokens = got["requests"][0]["tokens"]
    assert reusable(got) == [0, tokens, tokens] and not got["losing"]


def test_an_answer_that_is_sent_back_is_reusable_under_its_adapters_only(tmp_path):
    said = ("What is this?", "A cache of prompts.", "And that?")
    got = found(tmp_path, chat(*said[:1], lora=on(0)), chat(*said, lora=on(0)), chat(*said, "No.", "Why?", lora=on(1)))
    usable = reusable(got)
    assert usable[1] > got["requests"][0]["tokens"] and usable[2] == 0
    assert [row["cause"] for row in got["requests"]] == ["new", "extends", "adapters"]


def test_conversations_with_own_adapters_do_not_count_as_changed(tmp_path):
    got = found(tmp_path, chat("Who?", lora=on(0)), chat("What?", lora=on(1)), chat("Who?", "I.", "Why?", lora=on(0)))
    assert [row["cause"] for row in got["requests"]] == ["new", "new", "extends"]
    assert reusable(got)[1] == 0 and not got["losing"]


def test_a_request_without_a_list_is_undecided_until_the_scales_of_the_server_are_given(tmp_path):
    got = found(tmp_path, raw(on(0)), raw(), raw([]))
    tokens = got["requests"][0]["tokens"]
    assert reusable(got) == [0, 0, tokens] and got["requests"][1]["foreign"] > 0
    assert "assumed: scale 1 for requests without a list" in shown(got) and "undecided whether" in shown(got)
    off, same = (found(tmp_path, raw(on(0)), raw(), asking=ImportOptions(server={"lora_scaled": scales}))
                 for scales in ("0", "1"))  # fmt: skip
    assert reusable(off) == [0, 0] and "were computed under other adapters: wrong" in shown(off)
    assert reusable(same) == [0, tokens] and not same["requests"][1]["foreign"] and "undecided" not in shown(same)


def test_the_scenario_has_the_adapters(tmp_path):
    found(tmp_path, raw(on(0)), raw(), raw(on(2, scale=0.25)))
    _, text = import_bodies([tmp_path / "bodies.jsonl"], ImportOptions())
    scenario = load_text(text, {"llama_cpp@b11549"})
    assert scenario.server["lora_scaled"] == "1,1,1"
    assert [dict(step.request.extra).get("lora", "") for step in scenario.steps] == ["0:1", "", "2:0.25"]
    assert len({step.request.prompt for step in scenario.steps}) == 1


@pytest.mark.parametrize("profile", ["llama_cpp@b4265", "mlx_lm@0.31.3", "ik_llama@main"])
def test_where_adapters_are_not_simulated_their_prompts_are_other_text(tmp_path, profile):
    got = found(tmp_path, raw(on(0)), raw(on(1)), raw(on(1)), asking=ImportOptions(profile=profile, model="A"))
    assert [row["simulated"] > 0 for row in got["requests"]] == [False, False, True]
    assert "simulated as other text under each list of adapters" in shown(got)


def test_bodies_without_adapters_say_nothing_of_them(tmp_path):
    got = found(tmp_path, raw(), raw([]))
    assert got["simulation"]["adapters"] == "" and "adapter" not in shown(got).replace(str(tmp_path), "")
    assert all(row["adapters"] == "" and not row["foreign"] for row in got["requests"])


@pytest.mark.parametrize("lora, scales", [
    (None, {}), ([], {}), ("0:1", {}), ({"id": 0}, {}), ([5, None, "a"], {}), ([{"id": "0", "scale": 1}], {}),
    ([{"scale": 1}], {}), ([{"id": -1, "scale": 1}], {}), ([{"id": 10**30, "scale": 1}], {}),
    ([{"id": 3}], {3: 0.0}), ([{"id": 0, "scale": "1"}], {0: 0.0}), ([{"id": 0, "scale": 1e300}], {0: 0.0}),
    ([{"id": 0, "scale": float("nan")}], {0: 0.0}), ([{"id": 2, "scale": -0.5}], {2: -0.5}),
])  # fmt: skip
def test_a_list_is_read_as_the_server_reads_it(lora, scales):
    assert Body("", parameters={} if lora is None else {"lora": lora}).adapters == scales


def test_scales_are_written_without_exponents():
    assert scales_text({1: 0.00001, 0: 2.0, 7: -0.5}) == "0:2,1:0.00001,7:-0.5"


def test_an_invalid_option_is_left_to_the_engine():
    bodies = [Body("", parameters={"lora": on(0)}), Body("", 1)]
    assert adapter_keys(bodies, "many") == [frozenset({(0, 1.0)}), None]
    assert adapter_keys(bodies, "0.5@7.8, 1")[1] == frozenset({(0, 0.5), (1, 1.0)})
