"""Tests of cold answers in other micro-batches, which tell a matter of numbers from a fault."""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from threading import Barrier

import pytest

from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.compare_replies import near
from cachesim.tools.conformance.http_check.batch_control import (
    LARGE,
    MOST_STARTS,
    SMALL,
    UBATCH,
    BatchControl,
    Cause,
    SecondServer,
    SharedBatch,
    StartedServers,
    cause_of,
    micro_batches,
    other_lengths,
)
from cachesim.tools.conformance.http_check.dialect import chooses_rows, layers_choose_rows
from cachesim.tools.conformance.http_check.http_client import Exhausted
from cachesim.tools.conformance.properties import checks
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply
from tests.unit.tools.conformance.http_check.in_process import Toy, stage_of
from tests.unit.tools.conformance.http_check.stand_in import serving

KERNEL = 64                  # tokens of a micro-batch from which on the stand-in rounds otherwise
LINE = "A100/A.B8"
PROPS = {"total_slots": 1, "default_generation_settings": {"n_ctx": 4096}, "model_alias": "DeepSeek-V3.2-Q4_K_M.gguf"}
QUICK = ("--only", "same", "--history", LINE, "--requests", "50", "--json")


class Rounding(Toy):
    """A server whose answer differs by 1 if the last micro-batch of a prompt is a small one. ``wrong``: it differs by 2
    if tokens were reused."""

    def __init__(self, ubatch, wrong=False):
        super().__init__(apart=lambda request, prompt, reused: self.off(len(prompt), reused))
        self.ubatch, self.wrong = ubatch, wrong

    def off(self, length, reused):
        return 2.0 if self.wrong and reused else float((length - reused - 1) % self.ubatch + 1 < KERNEL)


def reply(number):
    return Reply((number,))


@pytest.mark.parametrize("others, cause", [
    ([1], Cause.NUMBERS), ([0, 1], Cause.NUMBERS), ([0, 2], Cause.OPEN), ([0, 0], Cause.FAULT), ([], Cause.FAULT),
])  # fmt: skip
def test_a_cold_answer_like_the_warm_one_explains_it_and_another_leaves_it_open(others, cause):
    found = [Failed("gone"), Reply(refused="400"), *map(reply, others)]
    assert cause_of(reply(1), reply(0), found, near(0.0)) is cause


def wrong_check(server):
    stage = stage_of(server)
    played = stage.play(parse_history(LINE))
    check = next(one for one in checks(played, near(0.1)) if not one.ok and one.request == 1)
    return played, check


@pytest.mark.parametrize("chooses", [True, False])
@pytest.mark.parametrize("wrong, cause", [(False, Cause.NUMBERS), (True, Cause.FAULT)])
def test_a_second_server_tells_numbers_from_a_fault(chooses, wrong, cause):
    played, check = wrong_check(Rounding(512, wrong))
    other = SecondServer(stage_of(Rounding(32, wrong)))
    assert BatchControl(other, chooses).cause(played, check, near(0.1)) is cause


@pytest.mark.parametrize("complete, chooses, cause", [
    (Toy(), True, Cause.OPEN), (Toy(), False, Cause.FAULT), (Toy(apart=lambda *_: 1.0), False, Cause.OPEN),
    (Rounding(512), True, Cause.FAULT), (lambda body: (500, {"error": "boom"}), True, Cause.OPEN),
], ids=["equal", "equal-older", "apart", "shows-again", "silent"])  # fmt: skip
def test_what_a_run_with_small_micro_batches_decides(complete, chooses, cause):
    """A difference that it does not show is open, unless the model is an older one whose cold answers agree."""
    played, check = wrong_check(Rounding(512, wrong=True))
    assert BatchControl(SecondServer(stage_of(complete)), chooses).cause(played, check, near(0.1)) is cause


def test_without_a_control_a_difference_is_open_if_the_model_chooses_rows():
    played, check = wrong_check(Rounding(512))
    assert BatchControl(None, True).cause(played, check, near(0.1)) is Cause.OPEN
    assert BatchControl(None, False).cause(played, check, near(0.1)) is Cause.FAULT
    silent = SecondServer(stage_of(lambda body: (500, {"error": "boom"})))
    assert BatchControl(silent, True).cause(played, check, near(0.1)) is Cause.OPEN


def test_a_refusal_is_a_fault_with_every_model():
    played, check = wrong_check(Rounding(512))
    played.warm[1] = Reply(refused="400: no")
    assert BatchControl(None, True).cause(played, check, near(0.1)) is Cause.FAULT


class Asked:
    """A runner that records cold requests and their slots."""

    def __init__(self, slots, n_ctx=4096):
        self.asked = []
        self.server = stage_of(Toy(), slots=slots).server
        self.server = type(self.server)("native", "x", slots, n_ctx, self.server.tokens)

    def answer(self, ask, slot):
        self.asked.append((slot, len(ask.prompt), ask.prompt[:1]))
        return reply(slot)


@pytest.mark.parametrize("slots, n_ctx, lengths", [
    (2, 4096, {UBATCH - 100, 70}), (2, 300, {70}), (1, 4096, set()), (2, 100, set()),
])  # fmt: skip
def test_a_shared_batch_moves_the_cut_to_the_end_of_the_reused_tokens(slots, n_ctx, lengths):
    stage = Asked(slots, n_ctx)
    found = list(SharedBatch(stage).answers(CacheRequest((7,) * 108), 100))
    assert set(found) <= {reply(1)} and {length for slot, length, _ in stage.asked if slot == 0} == lengths
    assert all(length == 108 for slot, length, _ in stage.asked if slot == 1) and other_lengths(600)[0] == UBATCH - 88


def test_a_prompt_beside_another_repeats_the_tokens_of_the_server():
    stage = Asked(2, 4096)
    stage.server = type(stage.server)("native", "x", 2, 4096, (7, 8, 9))
    beside = []
    stage.answer = lambda ask, slot: beside.append(ask) if slot == 0 else reply(slot)
    list(SharedBatch(stage).answers(CacheRequest((7,) * 108, 4), 100))
    assert {(len(ask.prompt), ask.n_predict) for ask in beside} == {(UBATCH - 100, 1), (LARGE, 1)}
    assert all(ask.prompt == ((7, 8, 9) * UBATCH)[: len(ask.prompt)] for ask in beside)


class Starts:
    """Starts stand-ins. ``fails``: micro-batches that do not start."""

    def __init__(self, fails=()):
        self.fails, self.log = fails, []

    @contextmanager
    def __call__(self, size):
        if size in self.fails:
            raise BadInput("out of memory")
        self.log.append(size)
        try:
            yield stage_of(Rounding(size))
        finally:
            self.log.append(-size)


def test_servers_are_started_for_the_place_of_the_cut_and_end_with_the_check():
    assert micro_batches(100) == (SMALL, 100) and micro_batches(SMALL) == micro_batches(0) == (SMALL,)
    starts, ask = Starts(), CacheRequest((5,) * 108)
    with StartedServers(starts) as started:
        assert len(list(started.answers(ask, 100))) == 2 and len(list(started.answers(ask, 100))) == 2
        assert starts.log == [SMALL, 100]
        assert len(list(started.answers(ask, 96))) == 2 and starts.log == [SMALL, 100, -100, 96]
        for size in range(101, 140):
            list(started.answers(ask, size))
        assert sum(one > 0 for one in starts.log) == MOST_STARTS
    assert sum(starts.log) == 0
    with StartedServers(Starts(fails=[SMALL, 100])) as started:
        assert list(started.answers(ask, 100)) == []


@pytest.mark.parametrize("model, chooses", [
    ("deepseek-ai/DeepSeek-V3.2", True), ("GLM-5.2-Q2_K.gguf", True), ("qwen3-8b", False), ("my-alias", False),
])  # fmt: skip
def test_models_that_choose_rows_are_known_by_name(model, chooses):
    assert chooses_rows(model) is chooses


def test_a_model_that_the_user_names_may_be_layers():
    assert layers_choose_rows("I48 A") and layers_choose_rows("D4.32.12") and not layers_choose_rows("W32 A")
    assert layers_choose_rows("glm-5") and not layers_choose_rows("qwen3.5")
    with pytest.raises(BadInput, match="unknown model 'my-alias'"):
        layers_choose_rows("my-alias")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Measure little, and look up no rules."""
    monkeypatch.setattr("cachesim.tools.conformance.http_check.known_faults.NOISE", ("A40",))
    monkeypatch.setattr("cachesim.tools.conformance.http_check.known_faults.ROUNDS", 1)
    monkeypatch.setattr("cachesim.tools.conformance.http_check.rules_with_fault.MODELS", ())


def checked(capsys, server, *options, control=None, props=PROPS):
    with serving(server, props) as url, serving(control, props) if control else nullcontext() as other:
        code = main(["check", url, *QUICK, *options, *(["--control", other] if control else [])])
    data = json.loads(capsys.readouterr().out)
    return code, {one["name"]: (one["state"], one["why"]) for one in data["properties"]}


def test_a_server_whose_model_chooses_rows_is_undecided_without_a_control(capsys):
    code, found = checked(capsys, Rounding(512))
    assert code == 3 and found["branch"][0] == found["numbers"][0] == "undecided"
    assert "numbers or by a fault" in found["branch"][1] and "--control URL" in found["numbers"][1]
    code, found = checked(capsys, Rounding(512), props={**PROPS, "model_alias": "my-alias"})
    assert code == 1 and found["branch"][0] == "failed" and "numbers" not in found
    code, found = checked(capsys, Rounding(512), "--model", "I48", props={**PROPS, "model_alias": "my-alias"})
    assert code == 3 and found["branch"][0] == "undecided"


def test_a_control_decides(capsys):
    _, found = checked(capsys, Rounding(512), control=Rounding(32))
    assert found["numbers"][0] == "ok" and found["numbers"][1].endswith("a matter of numbers, not of the cache")
    assert "failed" not in {state for state, _ in found.values()}
    code, found = checked(capsys, Rounding(512, wrong=True), control=Rounding(512))
    assert code == 1 and found["branch"][0] == "failed" and "numbers" not in found
    code, found = checked(capsys, Rounding(512, wrong=True), control=Rounding(32))
    assert code == 3 and found["branch"][0] == "undecided"


def test_a_control_in_use_or_beside_a_real_server_is_refused(capsys):
    with serving(Rounding(512), PROPS) as url, serving(Rounding(32), PROPS, used=7) as other:
        assert main(["check", url, *QUICK, "--control", other]) == 2
        assert "1 slots hold conversations" in capsys.readouterr().err
    assert main(["check", "--real", "b11549", "--control", "http://127.0.0.1:1"]) == 2
    assert "--real starts its own control" in capsys.readouterr().err


def test_the_two_prompts_of_a_shared_batch_are_asked_at_once():
    both = Barrier(2, timeout=20)
    stage = Asked(2)
    stage.answer = lambda ask, slot: (both.wait(), reply(slot))[1]
    assert set(SharedBatch(stage).answers(CacheRequest((7,) * 108), 100)) == {reply(1)}


@pytest.mark.parametrize(("n_ctx", "lengths"), [(483, {70}), (484, {412, 70}), (141, set()), (142, {70})])
def test_a_prompt_beside_another_fits_into_the_context_with_its_answer(n_ctx, lengths):
    """A request of 70 tokens with an answer of 1, beside 412 tokens or 70."""
    stage = Asked(2, n_ctx)
    list(SharedBatch(stage).answers(CacheRequest((7,) * 70, n_predict=1), 100))
    assert {length for slot, length, _ in stage.asked if slot == 0} == lengths
    assert len(stage.asked) == 4 * len(lengths)


def test_a_second_server_is_not_asked_after_its_last_request():
    def exhausted(ask):
        raise Exhausted("stopped after 9 requests")

    stage = Asked(1)
    stage.answer = exhausted
    assert list(SecondServer(stage).answers(CacheRequest((7,)), 100)) == []


def test_a_server_for_a_cut_is_started_once_and_ends_before_the_next():
    starts, ask = Starts(), CacheRequest((5,) * 108)
    with StartedServers(starts) as started:
        assert started.replay(parse_history(LINE)).history.line == LINE
        assert starts.log == [SMALL]
        assert list(started.answers(ask, SMALL)) and starts.log == [SMALL]
        list(started.answers(ask, 40))
        list(started.answers(ask, 50))
        list(started.answers(ask, 40))
        assert starts.log == [SMALL, 40, -40, 50, -50, 40]
    assert sorted(starts.log[6:]) == [-40, -SMALL]


def test_a_server_that_does_not_start_counts_as_an_attempt():
    class Failing(Starts):
        def __call__(self, size):
            self.log.append(size)
            raise BadInput("out of memory")

    starts = Failing()
    with StartedServers(starts) as started:
        for _ in range(MOST_STARTS + 3):
            assert started.replay(parse_history(LINE)) is None
    assert starts.log == [SMALL] * MOST_STARTS


def test_a_cancelled_or_equal_answer_is_a_fault():
    played, check = wrong_check(Rounding(512))
    control = BatchControl(SecondServer(stage_of(Rounding(32))))
    assert control.cause(played, check, near(0.1)) is Cause.NUMBERS
    assert control.cause(played, check, lambda one, other: True) is Cause.FAULT
    played.asks[1] = replace(played.asks[1], cancel_after=2)
    assert control.cause(played, check, near(0.1)) is Cause.FAULT


@pytest.mark.parametrize(("cached", "given"), [(100, 100), (0, 0), (None, 0)])
def test_a_control_is_told_how_many_tokens_were_reused(cached, given):
    class Source:
        def answers(self, ask, reused):
            asked.append((ask, reused))
            return []

    asked = []
    played, check = wrong_check(Rounding(512))
    played.warm[1] = replace(played.warm[1], cached=cached)
    assert BatchControl(Source()).cause(played, check, near(0.1)) is Cause.FAULT
    assert asked == [(played.asks[1], given)]


def test_a_limit_that_the_other_prompt_of_a_batch_reaches_ends_the_check():
    def exhausted(ask, slot):
        if slot == 0:
            raise Exhausted("stopped after 9 requests")
        return reply(slot)

    stage = Asked(2)
    stage.answer = exhausted
    with pytest.raises(Exhausted, match="stopped after 9 requests"):
        list(SharedBatch(stage).answers(CacheRequest((7,) * 108), 100))


def test_a_model_that_the_user_names_may_be_a_file(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"model_type": "qwen3", "num_hidden_layers": 2, "num_attention_heads": 4,
                                "num_key_value_heads": 2, "hidden_size": 64, "head_dim": 16}))  # fmt: skip
    assert not layers_choose_rows(str(file))
