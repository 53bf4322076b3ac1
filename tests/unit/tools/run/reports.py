"""Reports of constructed runs: the only place of their sentences. python -m tests.unit.tools.run.reports rewrites them.

The commands in outputs.txt show whole reports; this file adds what a conversation of a few requests does not reach.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Iterator

from rich.console import Group, RenderableType

from cachesim.base.console import as_text
from cachesim.engines.inspection import StoredObject
from cachesim.engines.rule import Role
from cachesim.engines.shared.rule_set import Change
from cachesim.events import Decided
from cachesim.judging.evidence import Grade
from cachesim.judging.find_change import NO_ANSWER, ChangedFields, OutcomeChange, RequestHistory, RequestOutcome
from cachesim.judging.foreign_reads import ForeignContent
from cachesim.judging.judgement import SlotAtLaunch
from cachesim.judging.outcomes import StepOutcome
from cachesim.judging.run_data import run_data
from cachesim.judging.verdict import CORRECT
from cachesim.judging.why_data import answer_data, with_search
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.run.bisect_report import answer_report, bisect_report, without_order
from cachesim.tools.run.diff_report import diff_data, diff_report
from cachesim.tools.run.run_table import MOST, block_of_case, closing_line, predicted_lines, run_report, state_lines
from tests.unit.tools.run.made import BROKEN, FLAGS, UNDECIDED, judgement, run, why_report

FILE = Path(__file__).with_name("reports.txt")
Report = tuple[str, RenderableType]

ERASED = (0, 3, "erased", "R.1", -1, "checkpoint")
ARMED = [(StoredObject("entry", i, tuple(range(7)), 7, (), None), BROKEN) for i in range(5)]
FAILURE = {"causes": [{"request": 0, "text": "request 0 fills", "rule": "R.1"},
                      {"request": 2, "text": "request 2 keeps", "rule": ""},
                      {"request": 2, "text": "reads it", "rule": "R.2"}],
           "hence": "it differs", "source": "https://a.org/b#L1", "command": f"cachesim run '{'A' * 90}' -p x@1"}


def data_of(*requests: Any, **fields: Any) -> dict[str, Any]:
    """Return the data of a run with these requests, and other ``fields``."""
    return {**run_data(run(*requests)), **fields}


def run_reports() -> Iterator[Report]:
    """Reports of ``run``."""
    for verdict, fields in ((BROKEN, {"died": True, "status": 500}), (BROKEN, {"status": 200}),
                            (UNDECIDED, {"status": 400, "refused": True}), (UNDECIDED, {})):  # fmt: skip
        yield "run, a verdict", run_report(data_of(judgement(), judgement(verdict, **fields)))
    yield "run, corrupt state", run_report(data_of(judgement(state=BROKEN)))
    for requests, met in (([judgement()], True), ([judgement(BROKEN), judgement(BROKEN)], True),
                          ([judgement(BROKEN)], False), ([judgement(UNDECIDED), judgement(BROKEN)], None)):  # fmt: skip
        yield f"run, as expected: {met}", run_report(data_of(*requests, as_expected=met))
    lost = [judgement(charges=[ERASED]), judgement(charges=[(1, 2, "evicted", "R.2", 0, "entry")])]
    yield "run, losses", run_report(data_of(*lost))
    cold, hit = judgement(prompt_n=10), judgement(cache_n=4, prompt_n=6)
    cold.slot, hit.slot = SlotAtLaunch(0, 0), SlotAtLaunch(4, 4)
    yield "run, reasons", run_report(data_of(cold, hit))
    read = run(judgement(), judgement(BROKEN), reads={1: [ForeignContent("state", 0, 9, 9, 0, 12)]})
    yield "run, read instead", run_report(run_data(read))
    yield "run, corrupt objects", run_report(data_of(judgement(), judgement(armed=ARMED), judgement(armed=ARMED)))
    yield "run -v, corrupt objects", run_report(data_of(judgement(armed=ARMED)), verbose=1)
    titled = data_of(judgement(), scenario="a", title="the title", why="because\nof it", titles={"A": "the chat"})
    yield "run, titles", run_report(titled)
    yield "run -v, titles", run_report(titled, verbose=1)
    one = data_of(judgement(), profile="llama_cpp@b9518")
    flags = {"default": [], "set": ["-c 64"], "derived": [], "assumed": []}
    other = {**one, "profile": "llama_cpp@b8672", "flags": flags}
    yield "run, equal and other outcomes", run_report(
        one, {**other, "holds": False}, {**one, "profile": "llama_cpp@b10587"})  # fmt: skip
    lossy = data_of(judgement(charges=[ERASED], prompt_n=10), profile="vllm@0.33.0")
    yield "run, several engines", run_report(one, lossy)
    yield "run, a failure of one of several engines", run_report(one, {**lossy, "failure": FAILURE})
    corrupt = data_of(judgement(armed=ARMED), profile="vllm@0.33.0")
    yield "run, corrupt objects of one of several engines", run_report(one, corrupt)
    yield "run, one of several engines stopped", run_report(one, {**lossy, "not_run": 2, "limit": "tokens"})
    for number in (-1, 1):
        mismatch = {"request": number, "what": "reused", "got": 3, "expected": 4}
        yield "run, another number", run_report({**one, "mismatches": [mismatch]})
    for first, in_newest in (("b1", True), ("b1", False), ("", False), ("", True)):
        life = {"request": 2, "first": first, "last": "b9", "in_newest": in_newest}
        yield "run, versions of a bug", run_report({**one, "lives": [life]})
    for number in (1, 2, 3):
        yield "run, beyond a limit", run_report({**one, "not_run": number, "limit": "limit"})
    faulty = data_of(judgement(BROKEN), judgement(), judgement(BROKEN))
    for request in faulty["requests"]:
        request |= {"fault": "it differs", "rung": "bits"}
    yield "run, equal faults", run_report(faulty)
    predicted = {"what": "verdict", "rule": "R.1", "case": "a", "request": 1}
    yield "run, predicted", Group(*predicted_lines(
        [predicted, {**predicted, "request": 3}, {**predicted, "what": "charge", "request": 4}]))  # fmt: skip
    yield "run, a failure", block_of_case({"failure": FAILURE, "causes": ["old"], "command": "other"})
    yield "run, a case that cannot run", block_of_case(
        {"failure": None, "causes": ["it crashed"], "command": "cachesim why x 1"})  # fmt: skip
    for runs, failed in (([(True, True)], 0), ([(True, None)] * 2, 0), ([(True, None), (False, True)], 0),
                         ([(True, None), (None, True)], 0), ([(True, False)], 0), ([(True, True)], 2)):  # fmt: skip
        yield "run, the closing line", closing_line([{"holds": a, "as_expected": b} for a, b in runs], failed)


STATE = {"i": 2, "died": False, "slot_tokens": None, "checkpoints": [], "entries": 0, "stored_mib": None, "sizes": [],
         "preemptions": 0, "draft_memory": None, "uncounted": 0, "micro_batches": [], "shifts": [],
         "draft_n": 0, "draft_n_accepted": 0, "completions": 1, "id_slot": 1, "tokens_cached": 0}  # fmt: skip


def states() -> Iterator[Report]:
    """The state after a request, of which a run shows the parts that it has."""
    parts: list[dict[str, Any]] = [
        {"slot_tokens": 0}, {"slot_tokens": 7, "died": True}, {}, {"slot_tokens": 1, "checkpoints": [3]},
        {"slot_tokens": 20, "checkpoints": [*range(1, MOST + 2)]}, {"checkpoints": [3, 4]}, {"entries": 2},
        {"entries": 1, "stored_mib": 0.5}, {"shifts": [(90, 4, 45)]}, {"preemptions": 2},
        {"draft_n": 5, "draft_n_accepted": 2}, {"completions": 2}]  # fmt: skip
    for fields in parts:
        yield f"run -v, a state with {fields}", Group(*state_lines([{**STATE, **fields}]))


def why_reports() -> Iterator[Report]:
    """Reports of ``why``."""
    def told(*requests: Any, number: int = 0, others: Any = (), **more: Any) -> dict[str, Any]:
        made = run(*requests, **more)
        return with_search(answer_data(made, number), made, number, others, decided=None, unused=None, settings=None)

    for answer, state in ((BROKEN, CORRECT), (CORRECT, BROKEN), (CORRECT, CORRECT), (UNDECIDED, CORRECT)):
        yield "why, a verdict", why_report(told(judgement(answer, state)))
    yield "why, a known bug", why_report({**told(judgement(BROKEN)), "known_bug": True})
    yield "why, a doubt", why_report({**told(judgement(UNDECIDED), unsettled=[0]), "doubt": "why"})
    read = told(judgement(), judgement(BROKEN), number=1, reads={1: [ForeignContent("rows", 0, 7, 9, 0, 7)]})
    yield "why, read instead", why_report(read)
    lost = judgement(cache_n=2, prompt_n=8, charges=[(0, 4, "erased", "R.1", 0, "checkpoint")])
    yield "why, ranges", why_report(told(lost, others=[("llama_cpp@other", 6)]))
    yield "why, more than a correct answer could reuse", why_report(told(judgement(BROKEN, cache_n=9, prompt_n=1)))
    for fields in ({"refused": True}, {"died": True}):
        yield "why, no tokens", why_report({**told(judgement()), **fields})
    for evaluated in (5, 7):
        yield "why, a part or more than once", why_report(told(judgement(cache_n=4, prompt_n=evaluated)))
    one = {**told(judgement()), "scenario": "a", "title": "the title", "why": "a reason", "request_why": "another"}
    yield "why, equal and other outcomes", why_report(
        one, {**one, "profile": "llama_cpp@b9518", "kept": 1}, {**one, "profile": "llama_cpp@b8672"})  # fmt: skip
    unused = {**told(judgement(BROKEN, prompt_n=10)), "unused": [], "fault": "it differs", "predicted": []}
    for rung in ("bits", "argmax", "rows"):
        yield "why, nothing unused", why_report({**unused, "rung": rung})
    step = {"rule": "R.1", "role": Role.PICK, "value": 1, "says": "it is picked", "grade": "seen", "dull": False}
    off = {**step, "role": Role.ENABLE, "value": 0, "says": "off"}
    for steps in ([step, {**step, "grade": Grade.READ}, {**step, "grade": Grade.OURS}], [{**step, "dull": True}],
                  [off, {**step, "role": Role.CREATE}, step]):  # fmt: skip
        for verbose in (0, 1):
            yield f"why{' -v' * verbose}, decisions", why_report(
                {**told(judgement()), "decisions": steps}, verbose=verbose)  # fmt: skip


def diff_reports() -> Iterator[Report]:
    """Reports of ``diff``."""
    old = "llama_cpp@b8152"

    def compared(mine: Any, theirs: Any, first: Any = (), stored: Any = ((), ())) -> dict[str, Any]:
        runs = [run(*mine, stored=list(stored[0])), run(*theirs, profile=old, stored=list(stored[1]))]
        for made, decided in zip(runs, first, strict=False):
            for rule, value in decided:
                made.log.emit(Decided(0, rule, value, {}))
        return {**diff_data(*runs), "rules": {"count": 20, "changes": []}}

    wrong = compared([judgement()], [judgement(BROKEN)])
    wrong["b"]["requests"][0]["read_instead"] = ["read this", "and that"]
    yield "diff, a wrong answer", diff_report(wrong)
    two = compared([judgement(), judgement(cache_n=3, prompt_n=7)], [judgement(), judgement(cache_n=7, prompt_n=3)])
    yield "diff, a request", diff_report(two)
    yield "diff -v, a request", diff_report(two, 1)
    lost = [ERASED, (0, 4, "evicted", "R.2", 0, "entry")]
    yield "diff, losses", diff_report(
        compared([judgement(prompt_n=8, charges=lost)], [judgement(prompt_n=4, charges=lost[:1])]))  # fmt: skip
    yield "diff, prompt caches", diff_report(
        compared([judgement()], [judgement()], stored=([(0, 9), (-1, 4)], [])))  # fmt: skip
    yield "diff, a decision", diff_report(compared([judgement()], [judgement()], ([("R.1", 5)], [("R.1", 6)])))
    theirs = judgement(tokens_cached=5)
    theirs.uncounted = 2000
    yield "diff, memory and another observable", diff_report(compared([judgement(tokens_cached=4)], [theirs]))
    for number in (1, 10):
        changes = [{"field": f"f{n}", "old": "a", "new": "b", "source": "#12" * (n == 0)} for n in range(number)]
        rules = {**compared([judgement()], [judgement()]), "rules": {"count": 20, "changes": changes}}
        for verbose in (0, 1):
            yield f"diff{' -v' * verbose}, {number} rules", diff_report(rules, verbose)
    mlx = run(judgement(cache_n=4), profile="mlx_lm@0.32.2")
    mlx.scenario = replace(mlx.scenario, engine="mlx_lm", profiles=("mlx_lm@0.32.2",))
    yield "diff, two engines", diff_report(diff_data(run(judgement()), mlx))


RIGHT, WRONG, LESS = RequestOutcome(7, True, 200), RequestOutcome(5, False, 200), RequestOutcome(3, True, 200)
CHANGES = Change("min_step", "64", "256", "#1"), Change("rs_rm", "a", "b", "")


def bisect_reports() -> Iterator[Report]:
    """Reports of ``bisect``."""
    def change(old: str, new: str, was: Any, now: Any, *causes: ChangedFields) -> OutcomeChange:
        return OutcomeChange(old, new, was, now, list(causes))

    alone, together = ChangedFields(CHANGES[:1], True), ChangedFields(CHANGES, False)
    line = from_line("A10/B10/C10/D10", model="GA")
    outcomes = [RIGHT, WRONG, None, RequestOutcome(5, None, 200), RequestOutcome(0, False, 0),
                RequestOutcome(0, None, 400), RequestOutcome(0, False, 500), RequestOutcome(0, None, NO_ANSWER)]
    for outcome in outcomes:
        history = RequestHistory({"x@1": LESS, "x@2": outcome}, [change("x@1", "x@2", LESS, outcome, alone)])
        yield "bisect -v, an outcome", bisect_report(from_line("A10"), [history])
    seen = change("x@1", "x@2", RIGHT._replace(seen=StepOutcome({"tokens_cached": 4})),
                  WRONG._replace(seen=StepOutcome({"tokens_cached": 5})), together)  # fmt: skip
    mine = change("x@2", "x@mine", WRONG, RIGHT, alone)
    histories = [
        RequestHistory({"x@1": RIGHT, "x@2": WRONG}, [seen], [mine]),
        RequestHistory({"x@1": RIGHT}, [change("x@1", "x@2", RIGHT, LESS, alone)]),
        *[RequestHistory({"x@1": RIGHT, "x@2": RIGHT})] * 2]  # fmt: skip
    yield "bisect -v", bisect_report(line, histories)
    yield "bisect", answer_report(line, histories)
    yield "bisect, one change", answer_report(line, histories[1:2])
    for names in (["x@a", "x@b"], []):
        yield "bisect, without a place", Group(*without_order(names, bool(names)))


def shown() -> str:
    """Return all reports."""
    found = []
    for reports in (run_reports, states, why_reports, diff_reports, bisect_reports):
        for name, report in reports():
            lines = [line.rstrip() for line in as_text(report).splitlines()]
            found.append("\n".join([f"== {name}", *(line for line in lines if not FLAGS.match(line.strip()))]))
    return "\n\n".join(found) + "\n"


if __name__ == "__main__":
    FILE.write_text(shown(), "utf-8")
