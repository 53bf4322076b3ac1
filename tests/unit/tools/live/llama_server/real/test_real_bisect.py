"""Tests of the halving over real builds, with the simulator in place of their servers."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.llama_server.real.installation import environment_of
from cachesim.tools.live.llama_server.real.real_bisect import bisect_real, history_data, wheels_between
from cachesim.tools.live.llama_server.real.wheels import WHEELS
from cachesim.tools.live.real_report import change_sentence
from tests.unit.tools.live.in_process import servers

__all__ = ["servers"]       # a fixture
SCENARIO = from_line("A20>2@0/B10@0/A@0", model="A", profiles=("llama_cpp@b11549",),
                     server={"parallel": 1, "ctx_size": 512})  # fmt: skip
BEFORE, AFTER = "llama_cpp@b9518", "llama_cpp@b9765"
RANGE = "b8352,b9873"


@pytest.fixture
def builds(servers):
    """Return a function that installs the servers of a range, of which those from a build on load the conversation of
    a named slot, and halves it; ``ran``: the builds that were started."""
    for wheel in WHEELS:
        (folder := environment_of(wheel)).mkdir(parents=True)
        (folder / "llama-server").write_text("x")
        servers.rules[wheel.build] = BEFORE

    def halve(since=9718, refused=(), text=RANGE, back=99_999):
        for wheel in WHEELS:
            servers.rules[wheel.build] = AFTER if since <= wheel.number < back else BEFORE
        for build in refused:
            servers.rules[build] = "none"
        servers.words.clear()
        return bisect_real(SCENARIO, wheels_between(text), False)

    return halve


def ran(history):
    return [run.server.build for run in history.runs]


def test_halving_finds_the_neighbouring_wheels(builds):
    history = builds()
    assert (history.last_old, history.first_new) == ("b9713", "b9873") and len(history.runs) <= 6
    assert [run.found.rows[2].theirs.cache_n > 0 for run in history.runs] == [
        run.server.build == "b9873" for run in history.runs]  # fmt: skip


@pytest.mark.parametrize("since", [8929, 9713])
def test_every_change_is_found(builds, since):
    history = builds(since)
    assert history.first_new == f"b{since}" and history.last_old in ran(history)


def test_a_further_change_that_the_runs_show_is_named(builds):
    history = builds(back=9873)
    assert not history.first_new and ran(history) == ["b8352", "b9873"]
    history = builds(9000, text="b8672,b9873", back=9538)
    assert change_sentence(history_data(history)).count("between") <= 1


def test_without_a_change_only_the_ends_run(builds):
    history = builds(1)
    assert ran(history) == ["b8352", "b9873"] and not history.first_new
    assert "b8352" in change_sentence(history_data(history))


def test_a_wheel_that_cannot_run_the_scenario_is_left_out(builds):
    history = builds(refused=("b9713", "b8352"))
    assert (history.last_old, history.first_new) == ("b9538", "b9873")
    assert {*history.left_out} == {"b9713", "b8352"} and not {*history.left_out} & {*ran(history)}
    assert [one["build"] for one in history_data(history)["not_run"]] == ["b8352", "b9713"]


def test_an_undecided_comparison_is_left_out(builds, servers):
    """The answers of one build differ from their cold runs with some tokens only."""
    def spoil(number, is_cold, body, out):
        top = [{"top_logprobs": [{"id": token, "logprob": -9.0}]} for token in out["tokens"]]
        return out if is_cold or number != 1 else {**out, "completion_probabilities": top}

    servers.spoil = spoil
    history = builds(9873, text="b9538,b9873")
    assert [*history.left_out] == ["b9538"] and "request 0" in history.left_out["b9538"]
    assert (history.last_old, history.first_new) == ("b9713", "b9873")


def test_a_scenario_that_runs_nowhere_has_no_history(builds):
    history = builds(refused=[wheel.build for wheel in WHEELS], text="b9713,b9873")
    assert (history.runs, history.first_new, [*history.left_out]) == ([], "", ["b9713", "b9873"])


def test_a_wheel_that_is_not_installed_is_refused(servers):
    with pytest.raises(BadInput, match="b9713"):
        bisect_real(SCENARIO, wheels_between("b9713,b9873"), False)


@pytest.mark.parametrize("text", ["b11549", "b11549,b11549", "b8672,b9713,b11549", "/bin/sh,b11549"])
def test_other_ranges_are_refused(text):
    with pytest.raises(BadInput, match="bisect --real"):
        wheels_between(text)


def test_two_neighbours_can_be_compared():
    builds = [wheel.build for wheel in wheels_between("all")]
    assert sorted(builds, key=lambda build: int(build[1:])) == builds and len(builds) == len(WHEELS)
    assert [wheel.build for wheel in wheels_between(",".join(builds[1::-1]))] == builds[:2]
    assert wheels_between("b11549, b8672")[0].build == "b8672"
