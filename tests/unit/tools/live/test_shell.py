"""Shell script for a running server: the lines of a history, and what the script needs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.llama_server.export.script import make_script
from cachesim.tools.live.llama_server.export.shell import shell_script

PROFILE = "llama_cpp@b11549"


def text(line, **server):
    return shell_script(make_script(from_line(line, model="A", server=server), PROFILE))


def history(line, **server):
    """Return the lines that send the history, and those that compare it."""
    lines = text(line, **server).splitlines()
    warm, cold = lines.index("# The history, warm"), lines.index("# Every prompt, cold")
    return lines[warm + 1 : cold - 1], [one for one in lines[cold:] if one.startswith("compare ")]


def test_a_request_is_prepared_sent_and_heard():
    warm, cold = history("S9>r3/S.r[1:].B2", parallel=1)
    assert warm == [
        "body 0 '.S' '{\"n_predict\": 3}'", "send 0",
        "hear 0 '.r[0:0+($t[0][0:3] | length)] = ($t[0][0:3] // [])'",
        "body 1 '.S + .r[1:3] + .B' '{\"n_predict\": 1}'", "send 1"]  # fmt: skip
    assert cold == ["compare 0 0 9 200", "compare 1 9 4 200"]


def test_an_answer_replaces_as_many_tokens_of_each_word_as_its_slice_has():
    warm, _ = history("S2.a4/S.B2>a[1:3].r2/S")
    [heard] = [one for one in warm if one.startswith("hear 1 ")]
    assert ".a[1:1+($t[0][0:2] " in heard and ".r[0:0+($t[0][2:4] " in heard


def test_a_word_that_jq_does_not_take_as_a_name_is_a_key():
    made = make_script(from_line("S9", model="A"), PROFILE)
    (ask,) = made.groups[0]
    for name, path in (("A1", '.["A1"]'), ("Wash_a", ".Wash_a")):
        group = (ask._replace(prompt=(ask.prompt[0]._replace(word=name),)),)
        assert f"body 0 '{path}' " in shell_script(replace(made, groups=(group,)))


def test_requests_at_once_are_sent_in_the_background_with_their_delays():
    warm, cold = history("A9/B3{together}/C4{together+2}", parallel=4)
    assert [one for one in warm if not one.startswith("body ")] == [
        "send 0 & P0=$!", "send 1 & P1=$!", 'sleep "$(jq -n "2 * $DELAY")"', "send 2 & P2=$!", "wait $P0 $P1 $P2"]
    assert len(cold) == 3


def test_only_what_the_history_needs_is_defined():
    plain = text("A9")
    assert [name in plain for name in ("hang_up()", "slot()", "adapters")] == [False] * 3
    warm, cold = history("A9>4{cancel_after=2}/B3")
    assert warm[1] == "hang_up 0 2" and [one.split()[1] for one in cold] == ["1"]
    assert "hang_up()" in text("A9>4{cancel_after=2}") and "slot()" not in text("A9>4{cancel_after=2}")
    warm, _ = history("A9/{save@0 f}/{erase@0}")
    assert warm[-2:] == ["slot 0 save f.bin", "slot 0 erase ''"] and "slot()" in text("A9/{erase@0}")
    assert text("A9", lora_scaled="1,0").count("the server needs 2 adapters") == 1


def test_words_are_real_tokens_that_a_seed_renames():
    lines = text("A3>a2").splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("jq -c --argjson seed"))
    assert "IN(empty)" in lines[at + 1]
    body = "\n".join(lines[at:])
    assert body.index('{"A": [') < body.index('"a": [') < body.index("\nEND\n")


def test_the_tolerance_of_an_unknown_server_is_larger():
    assert "TOLERANCE=${TOLERANCE:-0.2}" in text("A5") and "then TOLERANCE=0.001: -t 1 " in text("A5")
    assert text("A5").startswith("#!/bin/sh\n# ") and text("A5").endswith("echo 'the fault does not show'\n")


@pytest.mark.parametrize(("line", "said"), [
    ("A5/{restart}", "the scenario restarts the server"), ("A5/{lora 0:1}", "the scenario sets the server's adapters"),
])  # fmt: skip
def test_a_scenario_that_changes_the_server_is_refused(line, said):
    with pytest.raises(BadInput, match=said):
        text(line, lora_scaled="1")


def test_the_cold_request_does_not_use_the_cache():
    assert '{"cache_prompt": false, "id_slot": 0, ' in text("A9")
