"""Tests of the histories whose requests arrive together, and of their checks on servers in this process."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.compare_replies import identical
from cachesim.tools.conformance.corpus import line_history
from cachesim.tools.conformance.history_player import HistoryRun
from cachesim.tools.conformance.http_check.dialect import identify_server
from cachesim.tools.conformance.http_check.parallel_histories import (
    LONGEST,
    ParallelBounds,
    bounds_of,
    burst_lines,
    busy_lines,
    crowded_lines,
    interleaved,
    parallel_lines,
)
from cachesim.tools.conformance.http_check.suite import CheckOptions, check
from cachesim.tools.conformance.http_check.warm_run import POLLS
from cachesim.tools.conformance.properties import checks
from cachesim.tools.conformance.protocol import CacheRequest, Reply
from tests.unit.tools.conformance.http_check.in_process import NATIVE, PROPS, InProcess, Toy, stage_of

BOUNDS = ParallelBounds(4, 300, (16, 64))
QUICK = CheckOptions(("parallel",), examples=1, tolerance=0.005, rounds=2)


def server_of(slots=4, n_ctx=4096, **facts):
    props = {**PROPS, "total_slots": slots, "default_generation_settings": {"n_ctx": n_ctx}}
    return replace(identify_server(InProcess(None, {**NATIVE, "/props": props})), **facts)


@pytest.mark.parametrize("slots, at_once, wanted", [(4, 0, 4), (1, 0, 2), (64, 0, 16), (4, 6, 6)])
def test_as_many_requests_arrive_together_as_the_server_has_slots(slots, at_once, wanted):
    server = server_of(slots)
    lines = list(parallel_lines(server, bounds_of(server, at_once, (16,)), 0, 0))
    first = parse_history(lines[0]).scenario.steps
    assert len(first) == wanted and len({step.request.prompt for step in first}) == 1


def test_four_conversations_are_interleaved_and_some_clients_disconnect():
    histories = [line_history(interleaved(number, BOUNDS), True) for number in range(60)]
    assert len({history.line for history in histories}) == 60
    assert interleaved(7, BOUNDS) == interleaved(7, BOUNDS)
    for history in histories:
        asked = history.asked
        assert len(asked) == 12 and all(one.cancel_after is None for one in asked[-4:])
        assert sum(one.together for one in asked) >= 3
        last = [step.request.prompt for step in history.scenario.steps[-4:]]
        assert len(set(last)) == 4
    stopped = [sum(one.cancel_after is not None for one in history.asked) for history in histories]
    assert min(stopped) == 0 and max(stopped) >= 3


def test_a_number_determines_a_history_on_every_machine():
    assert interleaved(0, BOUNDS) == (
        "S9.A65>a4/S.C16>5{cancel_after=1 together}/S.B2>b4{together}/S.D65>d4{together}/S.B.b.F9>f3/"
        "S.A.a.E1>3{cancel_after=0 together}/S.D.d.H7>h4/S.C>g3{together}/S.D.d.H.h.L7>l4/S.A.a.I10>i6{together}/"
        "S.B.b.F.f.J6>j5/S.C.g.K10>k6{together}")
    assert interleaved(2, BOUNDS) == (
        "D24>d6/A22>a5{together}/B16>b4{together}/C30>c4{together}/D.d.H8>h6/A.a.E9>e3{together}/"
        "C.c.G7>3{cancel_after=0}/B.b.F12>3{cancel_after=1 together}/B.b.F>j4/C.c.K3>k5{together}/"
        "A.a.E.e.I1>i5{together}/D.d.H.h.L2>l3{together}")
    assert interleaved(1, BOUNDS) == (
        "S11.A3>3{cancel_after=2}/S.C3>5{cancel_after=1 together}/S.D5>d4{together}/S.B10>b5{together}"
        "/S.D.d.H9>4{cancel_after=2}/S.G5>g5{together}/S.E3>3{cancel_after=1 together}"
        "/S.B.b.F5>4{cancel_after=2 together}/S.B.b.J2>j4/S.E>i5{together}/S.D.d.H>l5/S.G.g.K2>k6{together}")
    assert interleaved(3, BOUNDS) == (
        "C25>c6/A40>a3{together}/B4>b3/D38>d5{together}/B.b.F9>3{cancel_after=2}"
        "/A.a.E12>3{cancel_after=1 together}/C.c.G7>g3{together}/D.d.H8>5{cancel_after=3}/B.b.F>j5"
        "/A.a.I10>i6{together}/D.d.H>l4{together}/C.c.G.g.K10>k4{together}")
    assert interleaved(5, BOUNDS) == (
        "B10>b5/D15>d4{together}/C64>3{cancel_after=1}/A17>a4{together}/D.d.H8>4{cancel_after=3}"
        "/G1>5{cancel_after=4 together}/A.a.E12>e5{together}/B.b.F5>f4{together}/A.a.E.e.I6>i3"
        "/B.b.F.f.J12>j5{together}/D.d.H>l3{together}/K7>k3{together}")
    assert interleaved(6, BOUNDS) == (
        "S33.B16>6{cancel_after=1}/S.C25>c3{together}/S.D32>3{cancel_after=0 together}/S.A5>a5{together}"
        "/S.B>f3/S.C.c.G9>3{cancel_after=2 together}/S.A.a.E2>e5{together}/S.H6>3{cancel_after=2 together}"
        "/S.H>l5/S.C.c.G>k5{together}/S.B.f.J9>j3/S.A.a.E.e.I6>i3{together}")
    lines = [interleaved(number, BOUNDS) for number in range(200)]
    assert [sum(line.startswith("S") for line in lines), *(sum(line.count(word) for line in lines)
            for word in ("together", "cancel_after"))] == [105, 1448, 514]  # fmt: skip

def test_a_system_prompt_has_half_the_length_of_a_first_prompt_and_one_token():
    lines = [interleaved(number, ParallelBounds(4, 8, ())) for number in range(60)]
    assert {int(line[1:].partition(".")[0]) for line in lines if line.startswith("S")} == {2, 3, 4, 5}
    assert {line[0] for line in lines} == {*"SABCD"}


def runs(*answers, cold="c"):
    """Return a run in which identical prompts that arrive together get these answers."""
    count = len(answers)
    asks = [CacheRequest((1, 2)) for _ in range(count)]
    replies = [[Reply(fingerprint=one) for one in said] for said in (answers, cold * count)]
    line = "A2" + "/A{together}" * (count - 1)
    return HistoryRun(parse_history(line), asks, replies[1], [None] * count, replies[0], [range(count)])


@pytest.mark.parametrize("answers, number, where", [("ccc", 1, 0), ("cxc", 2, 1), ("xyz", 3, 1),
                                                    ("ccx", 2, 2), ("xxx", 1, 0)])  # fmt: skip
def test_the_distinct_answers_to_identical_prompts_are_counted(answers, number, where):
    found = [one for one in checks(runs(*answers), identical) if one.name == "identical"]
    assert [(one.ok, one.request) for one in found] == [(number == 1, where)]
    assert found[0].got == f"{number} distinct answers to 3 identical prompts"


def test_two_small_differences_from_the_cold_answer_are_one_answer():
    found = [one for one in checks(runs(4, 6, cold=[5]), lambda a, b: abs(a - b) <= 1) if one.name == "identical"]
    assert [one.ok for one in found] == [True]


def checked(complete, slots=2, wanted=QUICK, most=4_000):
    pages = {**NATIVE, "/props": {**PROPS, "total_slots": slots}}
    http = InProcess(complete, pages, most)
    return check(http, identify_server(http), wanted)


def states(found):
    return {one.name: one.state for one in found.report.results if one.state != "skipped"}


def test_a_sound_server_gets_no_alarm_and_the_number_of_answers_is_reported():
    found = checked(Toy(keeps=8))
    assert "failed" not in states(found).values() and states(found)["identical"] == "ok"
    why = next(one.why for one in found.report.results if one.name == "identical")
    assert why == "1 distinct answer to 2 identical prompts at once"
    assert found.report.counts["parallel"].histories >= 10
    assert {"answers", "cancel", "new", "append", "burst"} <= states(found).keys()       # what such histories may show


def test_what_depends_on_the_batch_without_a_cache_is_undecided():
    found = checked(Busy(lambda body: "id_slot" not in body and len(body["prompt"]) > 5))
    said = states(found)
    assert "failed" not in said.values() and said["burst"] == said["identical"] == "undecided"


def test_junk_in_place_of_completions_is_no_crash():
    for junk in ([], [1], [{}, None], [{"tokens": [1] * 5_000}]):
        stage = stage_of(lambda body, junk=junk: (200, junk), slots=2)
        stage.play(parse_history("A9>4{n_cmpl=2}"))


class Busy(Toy):
    """Answers a request for a named slot wrong while ``when`` holds for its body."""

    def __init__(self, when):
        super().__init__(keeps=8)
        self.when = when

    def __call__(self, body):
        wrong = self.when(body)
        status, said = super().__call__(body)
        if wrong:
            said["tokens"] = [token + 1 for token in said["tokens"]]
            said["completion_probabilities"][0]["top_logprobs"][0]["logprob"] -= 3.0
        return status, said


@pytest.mark.long
def test_an_answer_that_is_wrong_for_a_busy_slot_is_found_and_shrunk():
    def busy(body):
        sent.append((body.get("id_slot"), body["n_predict"] >= 64))
        return body["cache_prompt"] and sent[-2:] == [(0, True), (0, False)]

    sent = []
    found = checked(Busy(busy))
    lines = [one.finding.line for one in found.report.results if one.state == "failed" and one.finding]
    assert lines and all("@0" in line for line in lines)


def test_further_completions_are_compared_with_the_first():
    def complete(body):
        status, said = toy({key: value for key, value in body.items() if key != "n_cmpl"})
        if body.get("n_cmpl", 1) == 1:
            return status, said
        other = {**said, "tokens": [token + 1 for token in said["tokens"]], "completion_probabilities": []}
        return status, [said, other][: body["n_cmpl"]]

    toy = Toy(keeps=8)
    stage = stage_of(complete, slots=2)
    played = stage.play(parse_history("A9>4{n_cmpl=2}"))
    assert played.warm[0].tokens != played.cold[0].tokens and "n_cmpl" not in stage.http.asked[-1][1]


def test_a_history_that_names_slots_uses_them_and_others_use_slot_0():
    stage = stage_of(Toy(keeps=8), slots=2)
    stage.twice = 0
    stage.play(parse_history("A9@1/B5@7/A.C2"))
    assert [body.get("id_slot") for _, body in stage.http.asked] == [None, 1, None, None, 0, 0, 0]
    stage.play(parse_history("A9/B5"))
    assert [body.get("id_slot") for _, body in stage.http.asked[7:]] == [0] * 5


def test_requests_at_once_that_exceed_a_context_are_not_sent():
    stage = stage_of(Toy())
    sent = stage.http.sent
    played = stage.play(parse_history("A3000/B2000{together}"))
    assert played.gap == "not sent: requests at once that exceed a context of 4096 tokens" and stage.http.sent == sent
    assert not stage.play(parse_history("A3000/B2000")).gap


@pytest.mark.parametrize("slots, n_ctx, wanted", [(1, 512, 0), (1, 1024, 1), (2, 2048, 2)])
def test_a_conversation_continues_with_more_than_a_window_cache(slots, n_ctx, wanted):
    server = server_of(slots, n_ctx)
    lines = [line for line in parallel_lines(server, bounds_of(server, 0, (16,)), 0, 0) if "/B5/A.C" in line]
    assert len(lines) == wanted
    for line, cells in zip(lines, (256, 512), strict=False):
        first, _, last = (len(step.request.prompt) for step in parse_history(line).scenario.steps)
        assert cells < first and cells < last - first and last + 64 < n_ctx


class Crowded(Toy):
    """A llama-server with a context that slots share. It fails if a further completion's slot, which waits, holds too
    much for the prompt: with one error if the prompt ends, with another if it does not."""

    def __init__(self, n_ctx, batch):
        super().__init__(keeps=8)
        self.n_ctx, self.batch, self.slots = n_ctx, batch, {}

    def __call__(self, body):
        prompt, many = body["prompt"], body.pop("n_cmpl", 1)
        slot = body.pop("id_slot", 0)
        over = len(prompt) + len(self.slots.get(1, ())) - self.n_ctx
        self.slots[slot] = prompt
        if many > 1 and slot == 0 and over > 0:
            self.slots.clear()
            return 500, {"error": {"message": "gap" if over <= self.batch else "full"}}
        status, said = super().__call__(body)
        return status, said if many == 1 else [said] * many


@pytest.mark.long
def test_slots_that_wait_are_found_with_both_errors():
    server = Crowded(4096 // 8, 64)
    pages = {**NATIVE, "/props": {"total_slots": 2, "default_generation_settings": {"n_ctx": 4096 // 8}}}
    http = InProcess(server, pages, 3_000)
    result = check(http, identify_server(http), QUICK).report["answers"]
    assert result.state == "failed" and "n_cmpl=2" in result.finding.line
    assert {"gap", "full"} == {word for word in ("gap", "full") for text in (result.finding.got, *result.finding.notes)
                               if f"status 500: {word}" in text}  # fmt: skip


@pytest.mark.parametrize("meta, longest", [({}, 256), ({"n_params": 10_000_000}, 256), ({"n_params": 103_040}, 1_024)])
def test_a_tiny_model_gives_longer_answers_to_be_caught_while_it_generates(meta, longest):
    models = {"data": [{"id": "toy", "meta": {"n_vocab": 320, **meta}}]}
    server = identify_server(InProcess(None, {**NATIVE, "/v1/models": models}))
    lines = [parse_history(line) for line in parallel_lines(server, bounds_of(server, 0, (16,)), 0, 0) if "B.r" in line]
    assert max(step.request.n_predict for one in lines for step in one.scenario.steps) == longest
    assert all([step.asked.id_slot for step in one.scenario.steps] == [0] * 4 for one in lines) and len(lines) >= 3


@pytest.mark.parametrize("page, polls", [
    (lambda asked: [{"id": 0}, {"id": 1, "next_token": [{"n_decoded": asked - 3}]}], 4),
    (lambda asked: [{"id": 1, "next_token": {"n_decoded": 7}}], 1), (lambda asked: None, 1),
    (lambda asked: [{"id": 1}], POLLS),
])  # fmt: skip
def test_a_request_for_a_busy_slot_waits_until_the_slot_generates(page, polls):
    """A server without a list of slots delays nothing, one that never generates ends the wait."""
    released, late = threading.Event(), []

    def complete(body):
        if body["n_predict"] == 9 and body["cache_prompt"]:
            released.wait(30)                                        # the first request is answered last
        elif len(asked) >= polls:
            late.append(len(asked))
            released.set()
        return toy(body)

    def get(path):
        asked.append(path)
        return page(len(asked))

    asked, toy = [], Toy(keeps=8)
    stage = stage_of(complete, slots=2)
    stage.twice, stage.http.get = 0, get
    stage.play(parse_history("A9>9@1/B5@1{together}"))
    assert asked == ["/slots"] * polls and late[0] == polls


def test_only_a_request_for_the_slot_of_another_one_waits_and_not_beyond_its_end():
    asked = []
    stage = stage_of(Toy(keeps=8), slots=2)
    stage.http.get = lambda path: asked.append(path) or [{"id": 1}]
    stage.play(parse_history("A9@1/B5@0{together}/C5{together}/D5@1/E5/F5{together}"))
    assert asked == []
    stage.play(parse_history("A9@1/B5@1{together}"))
    assert 1 <= len(asked) < POLLS


def starts(server, bounds=BOUNDS):
    """Return the lines after those of bursts, up to those that are drawn."""
    return [*parallel_lines(server, bounds, 0, 0)][6:]


def busy(n, *answers):
    return [f"B40>r4@0/A{n}>{a}@0/B.r.F5>4@0{{together}}/B.r.G7>4@0{{together}}" for a in answers]


def test_a_llama_server_has_requests_for_busy_slots_and_full_contexts():
    whole = starts(server_of(4, 480))
    assert whole == [
        *busy(300, 64, 128, 256), "A288@1/B288@0/C20@1{together}", "A130>4{n_cmpl=4}/A.B8>4",
        "A30@1/B9@1{n_cmpl=4}/A.C5>4", *crowded_lines(480)]  # fmt: skip
    assert starts(server_of(1, 480)) == busy(300, 64, 128, 256)
    assert starts(server_of(4, 1000))[3:5] == ["A266/B5/A.C300>64", "A130>4{n_cmpl=4}/A.B8>4"]
    assert [line for line in starts(server_of(4, 2000)) if line.startswith("A522")] == ["A522/B5/A.C812>64"]
    assert starts(server_of(4, 480), BOUNDS._replace(most=50))[0] == busy(50, 64)[0]
    assert starts(server_of(4, 480), BOUNDS._replace(most=900, near=(400,)))[0] == busy(300, 64)[0]
    assert starts(server_of(4, 480), BOUNDS._replace(near=()))[4] == "A82>4{n_cmpl=4}/A.B8>4"


def test_a_server_with_drafts_gets_texts_that_repeat_and_no_further_completions():
    drafted = starts(server_of(4, 480, drafts=True))
    assert not any("n_cmpl" in line for line in drafted) and drafted[-3:] == [
        "A12>a8/A.a.A>8/A.a.A.B4>8", "A130>a8/A.a.B8>b8/A.a.B.b.C8>8",
        "A130>a8/B12>b8{together}/A.a.A.C4>8/B.b.B>8{together}"]


def test_a_server_of_another_dialect_gets_bursts_and_conversations_only():
    assert starts(server_of(4, 480, dialect="openai")) == []
    assert len([*parallel_lines(server_of(4, 480, dialect="openai"), BOUNDS, 3, 2)]) == 9


def test_the_bounds_share_a_context():
    assert bounds_of(server_of(4, 4096), 0, (5,)) == ParallelBounds(4, 4096 // 5 - 64, (5,))
    assert bounds_of(server_of(8, 4096), 0, ()).most == 4096 // 9 - 64
    assert bounds_of(server_of(4, 64), 0, ()).most == 8 and bounds_of(server_of(4, 64), 3, ()).at_once == 3


@pytest.mark.parametrize(("slots", "drafts"), [(1, False), (2, False), (2, True)])
def test_the_histories_of_a_native_server_follow_from_its_slots_and_drafts(slots, drafts):
    server = server_of(slots, 480, drafts=drafts)
    bounds = ParallelBounds(2, 100, (16,))
    lines = [line for line in parallel_lines(server, bounds, 0, 0) if line not in burst_lines(34, 2)]
    busy = [f"B40>r4@0/A100>{answer}@0/B.r.F5>4@0{{together}}/B.r.G7>4@0{{together}}" for answer in (64, 128, 256)]
    waiting = ["A288@1/B288@0/C20@1{together}"]
    copied = ["A34>4{n_cmpl=2}/A.B8>4", "A30@1/B9@1{n_cmpl=2}/A.C5>4", "A242@1/B240>6@0{n_cmpl=2}",
              "A240@1/B360>6@0{n_cmpl=2}", "A1@0/B1@1/C240>8@0{n_cmpl=2}"]  # fmt: skip
    drafted = ["A12>a8/A.a.A>8/A.a.A.B4>8", "A34>a8/A.a.B8>b8/A.a.B.b.C8>8",
               "A34>a8/B12>b8{together}/A.a.A.C4>8/B.b.B>8{together}"]  # fmt: skip
    assert lines == [*busy, *waiting * (slots > 1), *copied * (slots > 1 and not drafts), *drafted * drafts]


@pytest.mark.parametrize(("n_ctx", "rings"), [(694, 0), (695, 1), (1462, 1), (1463, 2)])
def test_window_caches_are_exceeded_where_the_context_has_room(n_ctx, rings):
    lines = list(parallel_lines(server_of(1, n_ctx), ParallelBounds(2, 100, ()), 0, 0))
    assert [line for line in lines if "B5/A.C" in line] == ["A266/B5/A.C300>64", "A522/B5/A.C812>64"][:rings]


def test_a_conversation_that_waits_needs_a_context_of_300_tokens():
    def waits(n_ctx):
        return [line for line in parallel_lines(server_of(2, n_ctx), ParallelBounds(2, 100, ()), 0, 0)
                if line.endswith("/C20@1{together}")]  # fmt: skip

    assert waits(501) == ["A300@1/B300@0/C20@1{together}"] and waits(502) == []


def test_a_server_that_is_not_native_gets_identical_and_interleaved_requests():
    server = replace(server_of(2), dialect="openai", client="a client")
    bounds = ParallelBounds(2, 100, ())
    assert list(parallel_lines(server, bounds, 2, 3)) == [
        *burst_lines(82, 2), interleaved(6, bounds), interleaved(7, bounds)]  # fmt: skip
    assert bounds_of(server, 0, ()).at_once == 4


def test_prompts_that_arrive_together():
    later = "{together}"
    assert list(burst_lines(20, 3)) == [
        f"A20>8/A>8{later}/A>8{later}", f"A20>a4/A.a.B8>8/A.a.B>8{later}/A.a.B>8{later}",
        f"A20>4/B20>4{later}/A.C8>8/A.C>8{later}/A.C>8{later}/B.C>4{later}",
        f"A20>4/A.B2>6/A.C5>6{later}/A.D8>6{later}", f"B1>6/C8>6{later}/D15>6{later}",
        f"A20>4/A[:20]>6/A[:19]>6{later}/A[:18]>6{later}"]  # fmt: skip
    assert list(burst_lines(2, 3))[-2:] == [
        f"B1>6/C2>6{later}/D1>6{later}", f"A2>4/A[:2]>6/A[:1]>6{later}/A[:1]>6{later}"]  # fmt: skip


@pytest.mark.parametrize(("slots", "at_once", "n_ctx", "bounds"), [
    (4, 0, 4096, (4, 755)), (1, 0, 4096, (2, 755)), (9, 0, 4096, (9, 345)), (2, 20, 4096, (20, 131)),
    (4, 0, 256, (4, 8)), (4, 0, 360, (4, 8)), (4, 0, 365, (4, 9)),
])  # fmt: skip
def test_conversations_share_a_context(slots, at_once, n_ctx, bounds):
    assert bounds_of(server_of(slots, n_ctx), at_once, (16,)) == ParallelBounds(*bounds, (16,))


def test_a_tiny_model_answers_long_to_stay_busy():
    tiny = server_of(1, 3000, is_tiny=True)
    assert list(busy_lines(tiny, 100))[3:] == [
        f"B40>r4@0/A{n}>1024@0/B.r.F5>4@0{{together}}/B.r.G7>4@0{{together}}" for n in (51, 34, 26)]  # fmt: skip
    assert ">500@0/" in list(busy_lines(replace(tiny, n_ctx=1000), 100))[3]


@pytest.mark.parametrize(("n_ctx", "lines"), [
    (480, ["A242@1/B240>6@0{n_cmpl=2}", "A240@1/B360>6@0{n_cmpl=2}", "A1@0/B1@1/C240>8@0{n_cmpl=2}"]),
    (2196, ["A1100@1/B1098>6@0{n_cmpl=2}", "A1098@1/B1100>6@0{n_cmpl=2}", "A1@0/B1@1/C1098>8@0{n_cmpl=2}"]),
    (2198, ["A1@0/B1@1/C1099>8@0{n_cmpl=2}"]), (2204, ["A1@0/B1@1/C1100>8@0{n_cmpl=2}"]),
])  # fmt: skip
def test_completions_lack_room_for_a_conversation_that_they_replace(n_ctx, lines):
    assert list(crowded_lines(n_ctx)) == lines


def burst_sizes(history):
    """Return the tokens that the requests of each burst, or of several completions, need at once."""
    bursts, n = [], 0
    for step, asked in zip(history.scenario.steps, history.asked, strict=True):
        if not asked.together:
            bursts.append([])
        n = max(1, asked.n_cmpl)
        bursts[-1].append((n, len(step.request.prompt) + n * step.request.n_predict))
    return [sum(size for _, size in one) for one in bursts if len(one) > 1 or one[0][0] > 1]


@pytest.mark.parametrize("n_ctx", [256, 512, 4096])
@pytest.mark.parametrize("slots, drafts", [(1, False), (2, True), (4, False)])
def test_all_lines_are_histories_that_fit_into_one_context(slots, drafts, n_ctx):
    server = server_of(slots, n_ctx, drafts=drafts)
    lines = list(parallel_lines(server, bounds_of(server, 0, (16, 64)), 40, 1))
    small = [line for line in lines if all(size <= n_ctx - 5 for size in burst_sizes(line_history(line, True)))]
    assert len(set(lines)) == len(lines) and len(small) >= len(lines) - 4
    assert all(("n_cmpl" in "".join(lines)) is (slots > 1 and not drafts) for _ in lines)


@pytest.mark.parametrize("n_ctx", [256, 511, 2048, 2190, 2198, 65_536])
def test_a_full_context_is_provoked_by_requests_that_fit_and_do_not_meet(n_ctx):
    """Prompts of two slots exceed the context by 2 tokens, then by much more, if they are not too long."""
    histories = [line_history(line, True) for line in crowded_lines(n_ctx)]
    over = []
    for history in histories:
        lengths = [len(step.request.prompt) for step in history.scenario.steps]
        assert not any(one.together for one in history.asked) and history.asked[-1].n_cmpl == 2
        assert all(size <= n_ctx - 5 for size in burst_sizes(history)) and max(lengths) <= LONGEST
        over.append(sum(lengths[-2:]) - n_ctx)
    assert [one.asked[-2].id_slot for one in histories] == [1] * len(histories)
    assert (over[0] == 2 and over[1] > 2) if n_ctx < 2197 else len(histories) == 1
    assert over[-1] < 0 and lengths[-1] == min(n_ctx // 2, LONGEST)
