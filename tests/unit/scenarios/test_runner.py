"""Tests of the runner: order of the steps, and observer calls while the server holds the state of a request."""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from cachesim.base import limits
from cachesim.base.errors import BadInput, Crash, OverLimit
from cachesim.engines.llama_cpp.events import LoraSet
from cachesim.engines.registry import engine_of
from cachesim.events import Decided, Decoded, Gained, Lost
from cachesim.events.base import LOOKS
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios import runner
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.notation.normalise import letters
from cachesim.scenarios.runner import AnswerCollector, Observers, SilentObserver, play
from cachesim.scenarios.schema import Action, Step
from tests.shared import SMALL, altered

HEAD = "llama_cpp@b10587"
IK, MLX, VLLM = "ik_llama@2491", "mlx_lm@0.32.2", "vllm@0.33.0"


class Notes(SilentObserver):
    """Observer that records its calls and the tokens in the slot at that time."""

    def __init__(self):
        self.told, self.server, self.folder = [], None, None

    def started(self, server):
        self.told.append("started")
        self.server = server

    def begins(self, number, step):
        self.told.append(f"begins {number}")

    def answered(self, number, request, answer):
        held = tuple(self.server.core.slots[answer.id_slot].tokens)
        found = "died" if answer.died else "" if held == answer.slot_tokens else "another slot"
        self.told.append(f"answered {number} {found}".strip())

    def acted(self, number, action, reply):
        self.told.append(f"{action.do} {number} {reply['status']}")


def scenario(line, *changes, **server):
    """A line of requests; ``changes`` are (number, fields of the step)."""
    made = from_line(line, model="AAAA", server={**SMALL, "ctx_size": 256, **server})
    steps = list(made.steps)
    for number, fields in changes:
        steps[number] = altered(steps[number], **fields)
    return replace(made, steps=tuple(steps))


def act(do, slot=-1, file=""):
    return {"action": Action(do, slot, file)}


def told(made):
    notes = Notes()
    log = play(made, HEAD, "none", notes)
    return notes.told, log


def test_one_after_the_other():
    assert told(scenario("S20/A10"))[0] == ["started", "begins 0", "answered 0", "begins 1", "answered 1"]


def test_sent_together_the_short_answer_comes_first():
    made = scenario("S20>9/A10", (1, {"together": True}), parallel=2)
    assert told(made)[0][1:] == ["begins 0", "begins 1", "answered 1", "answered 0"]


@pytest.mark.parametrize(("after", "first"), [(0, 1), (8, 0)])
def test_after_so_many_iterations(after, first):
    made = scenario("S20>4/A10", (1, {"together": True, "after": after}), parallel=2)
    assert next(text for text in told(made)[0] if text.startswith("answered")) == f"answered {first}"


def test_one_slot_works_off_what_was_sent_together():
    made = scenario("S20>3/A10>3", (1, {"together": True}))
    assert told(made)[0][-2:] == ["answered 0", "answered 1"]


def test_actions_and_a_restart_count_as_steps():
    made = scenario(
        "S20/x1/x/x/x/S", (1, act("save", 0, "a")), (2, act("restart")), (3, act("restore", 0, "a")),
        (4, act("erase", 0)),
    )
    notes, log = told(made)
    assert notes == [
        "started", "begins 0", "answered 0", "begins 1", "save 1 200", "begins 2", "started", "restart 2 200",
        "begins 3", "restore 3 200", "begins 4", "erase 4 200", "begins 5", "answered 5",
    ]
    assert len(log.marks) == 6


def test_a_dead_server_answers_nothing_until_it_is_restarted():
    made = replace(
        scenario("A250>9/B10/x1/x/B", (2, act("erase", 0)), (3, act("restart")), context_shift=True), model="lfm2swa"
    )
    notes, _ = told(made)
    assert [text for text in notes if not text.startswith("begins")][1:] == [
        "answered 0 died", "answered 1 died", "erase 2 0", "started", "restart 3 200", "answered 4"
    ]


def test_scales_are_set_between_requests():
    """An adapter that is not named is off."""
    made = scenario("S20/x1/x/S", (1, {"action": Action("lora", scales="1:0.5")}),
                    (2, {"action": Action("lora", scales="0:2")}), lora_scaled="1,0.5")  # fmt: skip
    notes, log = told(made)
    assert [text for text in notes if "begins" not in text] == [
        "started", "answered 0", "lora 1 200", "lora 2 200", "answered 3"]  # fmt: skip
    assert [(event.id, event.scale) for event in log.events if isinstance(event, LoraSet)] == [
        (0, 0.0), (1, 0.5), (0, 2.0), (1, 0.0)]  # fmt: skip


def test_groups_begin_where_a_step_is_not_sent_together():
    one = scenario("S20").steps[0]
    assert isinstance(one, Step)
    other = altered(one, together=True)
    steps = [one, other, one, other, other, one]
    assert [(first, len(group)) for first, group in runner.groups(steps)] == [(0, 2), (2, 3), (5, 1)]
    assert list(runner.groups([])) == []


def test_what_the_engine_does_not_simulate_is_named_with_its_place():
    scenario = replace(from_line("P9/P9", model="GGGA", profiles=("ik_llama@main",)), file="x.toml", engine="ik_llama")
    first, second = scenario.steps
    asks_two = replace(second, request=replace(second.request, n_cmpl=2))
    with pytest.raises(BadInput, match=r"^x\.toml: request 1: n_cmpl 2 is not modelled for this engine"):
        play(replace(scenario, steps=(first, asks_two)), "ik_llama@main", "none")


def test_a_request_counts_as_answered_when_all_its_completions_are():
    """The prompt is too long for a slot; the second completion ends a round after the first."""
    found = []

    class Children(SilentObserver):
        def answered(self, number, request, answer):
            found.append((answer.status, [child.done for child in answer.children]))

    made = scenario("S300", parallel=2)
    play(replace(made, steps=(replace(made.steps[0], request=replace(made.steps[0].request, n_cmpl=2)),)), HEAD, "none",
         Children())
    assert found == [(400, [True])]


def test_a_server_that_waits_for_ever_is_a_fault_and_no_endless_run(monkeypatch):
    monkeypatch.setattr(runner, "STUCK", 50)

    class Deaf(SilentObserver):
        def started(self, server):
            server.update = lambda: None

    with pytest.raises(Crash, match="nothing has happened for 50 rounds, and 1 requests wait"):
        play(scenario("S20"), HEAD, "none", Deaf())


@pytest.mark.parametrize(("loud", "allowed"), [(set(), 6), ({3}, 9), ({1, 5, 6}, 12)])
def test_an_event_begins_the_quiet_rounds_anew(monkeypatch, loud, allowed):
    monkeypatch.setattr(runner, "STUCK", 5)
    rounds = []

    class Rarely(SilentObserver):
        def started(self, server):
            def update():
                rounds.append(len(rounds) + 1)
                server.log.events.extend([Decoded(1)] * (rounds[-1] in loud))

            server.take_tasks, server.update = lambda: None, update

    with pytest.raises(Crash):
        play(scenario("S20"), HEAD, "none", Rarely())
    assert len(rounds) == allowed


def test_a_server_that_generates_without_an_event_is_no_fault(monkeypatch):
    monkeypatch.setattr(runner, "STUCK", 50)
    answers = []

    class Heard(SilentObserver):
        def answered(self, number, request, answer):
            answers.append(len(answer.tokens))

    play(from_line("S20>100", model="AAAA", profiles=("mlx_lm@0.32.2",)), "mlx_lm@0.32.2", "none", Heard())
    assert answers == [100]


def test_a_constants_docstring_stands_below_it():
    body = ast.parse(Path(runner.__file__).read_text(encoding="utf-8")).body
    told = {node.targets[0].id: ast.unparse(below) for node, below in pairwise(body) if isinstance(node, ast.Assign)}
    assert "server whose process has ended" in told["DEAD"] and "process" not in told["STUCK"]


@pytest.mark.parametrize(("profile", "model", "line", "places"), [
    (HEAD, "A", "S9{drafts=3:1,2:1,2:2}", [9, 11, 13]),      # any cut is possible: each begins after the last token
    ("llama_cpp@b9518", "GA", "S9{drafts=3:1,2:1,2:2}", [9, 12, 15]),        # the replay adds a token of its own
    ("llama_cpp@b9518", "GA", "S9{drafts=2:2,1:0,1:1}", [9, 12, 14]),        # an accepted draft is not replayed
])  # fmt: skip
def test_a_rejected_draft_is_replayed_only_where_it_cannot_be_rolled_back(profile, model, line, places):
    server = engine_of(profile).start(profile, model, {}, "none")
    step = from_line(line).steps[0]
    assert [draft.at for draft in runner.placed(step, server).drafts] == places
    plain = from_line("S9").steps[0]
    assert runner.placed(plain, server) is plain.request


@pytest.mark.parametrize(("after", "rounds"), [(0, 0), (1, 1), (3, 3), (10**6, 9)])
def test_who_comes_later_comes_so_many_iterations_later_or_when_the_server_is_idle(after, rounds):
    class Counting(SilentObserver):
        """Return the number of server-loop rounds before each step."""

        def __init__(self):
            self.rounds, self.begun = 0, []

        def started(self, server):
            update = server.update

            def counted():
                self.rounds += 1
                update()

            server.update = counted

        def begins(self, number, step):
            self.begun.append(self.rounds)

    notes = Counting()
    play(scenario("S20>9/A10", (1, {"together": True, "after": after}), parallel=2), HEAD, "none", notes)
    assert notes.begun == [0, rounds]


def test_the_options_of_a_restart_last_until_the_next_one_changes_them():
    class Slots(SilentObserver):
        """Return the number of slots of each server."""

        def __init__(self):
            self.slots = []

        def started(self, server):
            self.slots.append(server.inspection.n_slots)

    notes = Slots()
    play(scenario("S20/{restart parallel=3}/S/{restart}/{restart parallel=2}"), HEAD, "none", notes)
    assert notes.slots == [1, 3, 3, 2]


def test_work_that_stops_early_goes_on_where_it_was():
    made, ends = scenario("A40>9/A.B20>3"), []

    class Heard(SilentObserver):
        def answered(self, number, request, answer):
            ends.append((number, len(answer.tokens)))

    stage = runner.ScenarioStage(made, HEAD, "none", Path("."), Heard(), HEAD)
    waiting = stage.submit(0, made.steps[:1])
    _, answer = waiting[0]
    stage.work(waiting, lambda: len(answer.tokens) == 4)
    assert (len(answer.tokens), answer.done, list(waiting), ends) == (4, False, [0], [])
    stage.work(waiting)
    stage.send(1, made.steps[1:])
    assert (answer.done, list(waiting), ends) == (True, [], [(0, 9), (1, 3)])
    assert stage.log.events == play(made, HEAD, "none").events


def test_several_observers_get_every_call():
    made = scenario("A4>2/A.B4", (1, act("erase", 0)))
    first, second = Notes(), Notes()
    play(made, HEAD, "none", Observers(first, second))
    assert first.told == second.told == told(made)[0] and first.told[0] == "started"


def test_a_single_observer_is_not_wrapped():
    notes = Notes()
    assert Observers.of(notes, None) is notes


def test_a_request_costs_ten_micro_batches_beside_its_own():
    """Five prompts without further tokens take as long as many micro-batches."""
    once, often = (play(scenario(f"S20>s1{'/S>t1' * further}"), HEAD, "none").passes for further in (1, 6))
    assert often == once + 5 * 11


def stored(number):
    """Return requests of so many conversations, each of which the prompt cache keeps."""
    return "/".join(f"{letters(one)}9>{letters(one).lower()}1" for one in range(number))


@pytest.mark.parametrize(("profile", "flags", "passes", "looks"), [
    (HEAD, {"parallel": 1, "ctx_size": 4096}, 11, 59 + 2 * 60 + 60), (HEAD, {"parallel": 4, "ctx_size": 4096}, 11, 475),
    (IK, {"ctx_size": 4096}, 11, 2 * 59 + 2 * 60 + 60), (MLX, {"prompt_cache_size": 999}, 13, 8 * (60 + 61)),
])  # fmt: skip
def test_looks_at_stored_conversations_cost_micro_batches(profile, flags, passes, looks):
    """The request after 60 conversations saves one beside 59, looks for its own prompt, and lists 60."""
    few, many = (play(from_line(stored(number), model="A", profiles=(profile,), server=flags), profile, "none")
                 for number in (60, 61))  # fmt: skip
    assert (many.passes - few.passes) * LOOKS + many.looks - few.looks == passes * LOOKS + looks


def test_a_judged_run_looks_twice_at_each_stored_object_after_a_request():
    """After the requests 0 to 9, the prompt cache has 0 to 9 conversations; with states there are checkpoints, too."""
    made = from_line(stored(10), model="A", profiles=(HEAD,), server={"parallel": 1, "ctx_size": 4096})
    judged, alone = run_judged(made, HEAD, "provenance"), play(made, HEAD, "provenance")
    sizes = sum(len(one.sizes) for one in judged.requests)
    assert sizes == sum(range(10))
    assert (judged.log.passes - alone.passes) * LOOKS + judged.log.looks - alone.looks == 2 * sizes


def test_looks_at_blocks_found_in_the_cache_cost_micro_batches():
    """Of 4,000 blocks, each is looked at twice."""
    flags = {"num_gpu_blocks": 5000, "block_size": 1}
    few, many = (play(from_line("A4001>a1" + "/A>b1" * further, model="A", profiles=(VLLM,), server=flags), VLLM,
                      "none").passes for further in (1, 3))  # fmt: skip
    assert (many - few) // 2 - 11 in (2 * 4000 // LOOKS, 2 * 4000 // LOOKS + 1)


@pytest.mark.parametrize(("line", "passes"), [
    ("{save@0 a}", 10), ("{save@0 a}/{restore@0 a}", 20), ("{erase@0}", 0), ("{restart}", 10),
    ("{restart}/{erase@0}", 10),
])  # fmt: skip
def test_files_and_restarts_cost_as_much_as_ten_micro_batches(line, passes):
    alone = play(scenario("S20"), HEAD, "none").passes
    assert play(scenario(f"S20/{line}"), HEAD, "none").passes == alone + passes


class Collected(SilentObserver):
    """Observer that keeps the answers and replies."""

    def __init__(self):
        self.answers, self.replies = [], []

    def answered(self, number, request, answer):
        self.answers.append((number, answer.error, answer.error_kind, answer.done))

    def acted(self, number, action, reply):
        self.replies.append((number, dict(reply)))


def test_what_comes_after_the_end_of_the_process_says_so():
    made = replace(scenario("A250>9/B10/x1/x", (2, act("erase", 0)), (3, act("restart")), context_shift=True),
                   model="lfm2swa")  # fmt: skip
    notes = Collected()
    log = play(made, HEAD, "none", notes)
    assert notes.answers[1] == (1, "before this step", "ended-before", False)
    assert notes.replies == [(2, {"status": 0, "error": "before this step"}), (3, {"status": 200})]
    assert len(log.marks) == 4


def test_an_error_names_its_step_or_the_steps_of_its_group():
    made = scenario("S20/A10/B10", (2, {"together": True}))
    limits.lift({"tokens": 25})
    with pytest.raises(OverLimit) as bad:
        play(replace(made, file="x.toml"), HEAD, "none")
    assert str(bad.value).startswith("x.toml: request 1 to 2: the run evaluates and generates more tokens than it may")
    limits.lift({"tokens": 15})
    with pytest.raises(OverLimit) as bad:
        play(made, HEAD, "none")
    assert str(bad.value).startswith("request 0: ") and bad.value.hint


def test_answers_are_collected_by_step_in_the_order_of_their_ends():
    collected = AnswerCollector()
    play(scenario("S20>9/A10", (1, {"together": True}), parallel=2), HEAD, "none", collected)
    found = [(number, len(request.prompt), len(answer.tokens)) for number, (request, answer) in collected.found.items()]
    assert found == [(1, 10, 1), (0, 20, 9)]


def test_saved_slots_lie_in_a_folder_of_the_given_place(tmp_path):
    seen = []

    class Folder(SilentObserver):
        def acted(self, number, action, reply):
            seen.extend(sorted(path.name for path in tmp_path.glob("cachesim-*/*")))

    play(scenario("S20/{save@0 a}"), HEAD, "none", Folder(), place=str(tmp_path))
    assert seen == ["a"] and not [*tmp_path.iterdir()]


def test_the_work_of_an_earlier_run_counts():
    first = play(scenario("S20"), HEAD, "none")
    second = play(scenario("S20"), HEAD, "none", before=first)
    assert second.spent == 2 * first.spent > 0 and len(second.events) == len(first.events)


@pytest.mark.parametrize("profile", [HEAD, "ik_llama@2491", "mlx_lm@0.32.2", "vllm@0.33.0", "sglang@0.5.23"])
def test_a_run_that_keeps_no_decisions_logs_everything_else_but_restore_points(profile):
    """Engines that follow restore points without a listener do not follow them in such a run."""
    left_away = Decided, Gained, Lost
    scenario = from_line("S9.A40/S.B9/S.A.C5", model="A", profiles=(profile,))
    kept, left_out = (play(scenario, profile, "none", keeps_decisions=keeps) for keeps in (True, False))
    assert any(isinstance(event, Decided) for event in kept.events)
    assert [event for event in kept.events if not isinstance(event, left_away)] == [
        event for event in left_out.events if not isinstance(event, left_away)]  # fmt: skip
    assert len(left_out.events) < len(kept.events)
    assert len(left_out.events) < left_out.n_logged <= kept.n_logged == len(kept.events)
