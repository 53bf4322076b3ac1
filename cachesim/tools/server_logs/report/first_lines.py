"""First lines of the report on a log, below its headline: the time of the prompts, where the costliest prompt changed,
what it reused, what helps, what the simulation assumes, and the next command.

They are made from the data of ``import --json`` alone: from the statements about the log and the result of the
simulation. A sentence that the log does not prove is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import counted
from cachesim.base.escaping import shell_command
from cachesim.base.limits import OF_A_RUN
from cachesim.engines.registry import ENGINES
from cachesim.judging.reproduce_command import flag_text
from cachesim.tools.server_logs.facts.proven_range import ProvenRange
from cachesim.tools.server_logs.facts.statements import ENDED, TASKS, TOTAL
from cachesim.tools.server_logs.report.shown_requests import request_key, request_name
from cachesim.tools.server_logs.report.statement_report import repair_text

Data = Mapping[str, Any]
STDIN_NAME = "-"
CHECKPOINTS = frozenset({"ckpt_create", "ckpt_check", "ckpt_restore", "ckpt_invalidate", "ckpt_evict"})
"""Kinds of lines about checkpoints. A log without them does not show which checkpoints existed."""


class FirstLine(NamedTuple):
    """Sentence for the person who has the log. ``what``: "ended", "time", "change", "reused", "repair", "cure",
    "assumed" or "next". ``lines``: numbers of the log's lines behind it."""

    what: str
    says: str
    lines: tuple[int, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Return the line for JSON."""
        return {**self._asdict(), "lines": list(self.lines)}


@dataclass
class RequestNumbers:
    """Numbers of a request that follow from the log, and its printed prompt time [ms]."""

    name: str
    slot: int | None
    run: int
    numbers: dict[str, ProvenRange] = field(default_factory=dict)
    lines: dict[str, tuple[int, ...]] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)          # kind of line -> number of the last such line
    prompt_ms: float | None = None

    @property
    def lost(self) -> ProvenRange | None:
        """Return the tokens that the slot held and the request evaluated again, None if the log does not prove any."""
        found = self.numbers.get("lost")
        return found if found is not None and found.low else None


def first_lines(data: Data, out: str = "") -> list[FirstLine]:
    """Return the first lines of a report. ``out``: the scenario file that was written, "" = none."""
    found = facts_first(data["statements"])
    return [*found, *_cure(data), *_assumed(data), *_next(data, out)]


def facts_first(statements: Sequence[Data]) -> list[FirstLine]:
    """Return the first lines that follow from the statements about a log alone: time, change, and reused tokens."""
    requests = requests_of(statements)
    worst = _worst(requests)
    first = [*_ended(statements), *_time(requests)]
    if worst is not None:
        before = _previous(requests, worst)
        first += [*_change(worst, before), *_reused(worst, statements)]
    if worst is None or worst.lost is None:
        first += _repairs(statements)
    return first


def requests_of(statements: Sequence[Data]) -> list[RequestNumbers]:
    """Return the requests of a log in the order of their first statement."""
    found: dict[Any, RequestNumbers] = {}
    for said in statements:
        if said["task"] is None and said["what"] not in ("request", "cause"):
            continue
        key = request_key(said)
        one = found.setdefault(key, RequestNumbers(request_name(key), said["slot"], said["run"]))
        if said["kind"] == "read":
            one.kinds[said["what"]] = said["lines"][0]
            if said["what"] == "prompt_time" and isinstance(said["numbers"].get("prompt_ms"), int | float):
                one.prompt_ms = float(said["numbers"]["prompt_ms"])
        elif said["what"] == "request":
            for name, value in said["numbers"].items():
                one.numbers[name] = _span(value)
                one.lines[name] = tuple(said["lines"])
    return [one for one in found.values() if one.numbers]


def _ended(statements: Sequence[Data]) -> Iterator[FirstLine]:
    """Yield the error that ended the server."""
    for said in statements:
        if said["what"] == ENDED:
            yield FirstLine(ENDED, f"Line {said['lines'][0]}: {said['says']}.", tuple(said["lines"]))


def _span(value: Any) -> ProvenRange:
    return ProvenRange(value, value) if isinstance(value, int) else ProvenRange(value[0] or 0, value[1])


def _time(requests: Sequence[RequestNumbers]) -> Iterator[FirstLine]:
    """Yield the prompt time of the requests that lost tokens and of all, as the log prints them. Yield nothing if it
    does not print the time of each request that lost tokens."""
    lost = [one for one in requests if one.lost is not None]
    timed = [one for one in requests if one.prompt_ms is not None]
    if not timed or not all(one in timed for one in lost):
        return
    total = _seconds(sum(one.prompt_ms or 0 for one in timed))
    lines = tuple(sorted(one.kinds["prompt_time"] for one in lost or timed))
    if lost:
        own = _seconds(sum(one.prompt_ms or 0 for one in lost))
        whose = "That request" if len(lost) == 1 else "Those requests"
        counts = [one.numbers.get("prompt_n") for one in lost]
        known = [count.low for count in counts if count is not None and count.low == count.high]
        took = f"evaluated {sum(known):,} tokens in" if len(known) == len(lost) else "took"
        yield FirstLine("time", f"{whose} {took} {own} of the {total} that the log prints for prompts.", lines)
    else:
        yield FirstLine("time", f"The log prints {total} for the prompts of {counted(len(timed), 'request')}.", lines)


def _seconds(ms: float) -> str:
    return f"{ms / 1000:,.1f} s"


def _worst(requests: Sequence[RequestNumbers]) -> RequestNumbers | None:
    """Return the request that lost most; without losses, the one that evaluated most although its slot held tokens."""
    lost = [one for one in requests if one.lost is not None]
    if lost:
        return max(lost, key=lambda one: one.lost.low if one.lost is not None else 0)
    warm = [one for one in requests if "lcp" in one.numbers and "prompt_n" in one.numbers
            and ("held" not in one.numbers or one.numbers["held"].low > 0)]  # fmt: skip
    return max(warm, key=lambda one: one.numbers["prompt_n"].low, default=None)


def _previous(requests: Sequence[RequestNumbers], worst: RequestNumbers) -> RequestNumbers | None:
    """Return the request whose prompt and answer the slot held when the worst came, None if that does not follow: a
    prompt that was refused or interrupted is longer than what its slot holds."""
    earlier = requests[: requests.index(worst)]
    same = [one for one in earlier if (one.run, one.slot) == (worst.run, worst.slot)]
    held = worst.numbers.get("held")
    if not same or held is None or "end" not in same[-1].numbers:
        return None
    end = same[-1].numbers["end"]
    prompt = same[-1].numbers.get("n_tokens")
    if prompt is not None and end.high is not None and end.high < prompt.low:
        return None
    meets = (held.high is None or end.low <= held.high) and (end.high is None or held.low <= end.high)
    return same[-1] if meets else None


def _change(worst: RequestNumbers, before: RequestNumbers | None) -> Iterator[FirstLine]:
    """Yield the token after which the prompt differs from the slot, and the kind of change that this proves."""
    lcp = worst.numbers.get("lcp")
    held = worst.numbers.get("held")
    prompt = worst.numbers.get("n_tokens")
    if lcp is None:
        return
    whose = _compared_with(worst, held)
    if lcp.high == 0:
        says = f"{worst.name}: the prompt and {whose} have no common beginning"
    elif prompt is not None and prompt.low == prompt.high and lcp.low >= prompt.low:
        says = f"{worst.name}: the slot held all {prompt} tokens of the prompt"
    elif held is not None and held.high is not None and lcp.low >= held.high:
        says = f"{worst.name}: the prompt continues {whose}"
    elif _may_be_continued(lcp, held):
        says = f"{worst.name}: the prompt agrees with {whose} for {lcp} tokens"
    else:
        says = f"{worst.name}: the prompt differs from {whose} after {lcp} tokens{_place(lcp, before)}"
    yield FirstLine("change", f"{says}.", worst.lines["lcp"])


def _compared_with(worst: RequestNumbers, held: ProvenRange | None) -> str:
    """Return the tokens that a prompt was compared with: those of its slot, or of a server without slots."""
    if worst.slot is None:
        return "the closest stored tokens" if held is None else f"the {held} stored tokens"
    return "its slot" if held is None else f"the {held} tokens of its slot"


def _may_be_continued(lcp: ProvenRange, held: ProvenRange | None) -> bool:
    """True if the common prefix, which is not known exactly, may be all that the slot held."""
    if lcp.is_exact:
        return False
    return lcp.high is None or (held is not None and held.low <= lcp.high)


def _place(lcp: ProvenRange, before: RequestNumbers | None) -> str:
    """Return where the first difference lies in what the request before left; "" if that does not follow."""
    prompt = None if before is None else before.numbers.get("n_tokens")
    if prompt is None or lcp.high is None:
        return ""
    if lcp.high < prompt.low:
        return f", inside the previous prompt of {prompt}"
    return ", inside the previous answer" if prompt.high is not None and lcp.low >= prompt.high else ""


def _reused(worst: RequestNumbers, statements: Sequence[Data]) -> Iterator[FirstLine]:
    """Yield where the request continued from."""
    reused, prompt = worst.numbers.get("cache_n"), worst.numbers.get("n_tokens")
    of = "" if prompt is None else f" of {prompt} prompt tokens"
    if "full_reprocess" in worst.kinds:
        whole = "" if prompt is None else f"all {prompt} tokens of "
        says = f"The server found no usable checkpoint and evaluated {whole}the prompt."
        yield FirstLine("reused", says, (worst.kinds["full_reprocess"],))
        yield from _tasks(statements)
    elif "ckpt_restore" in worst.kinds and reused is not None:
        yield FirstLine("reused", f"It continued from a checkpoint and reused {reused}{of}.", worst.lines["cache_n"])
    elif reused is not None:
        shown = any(said["what"] in CHECKPOINTS for said in statements)
        is_open = worst.lost is not None and worst.slot is not None and not shown
        hint = "; the log does not show which checkpoints existed" if is_open else ""
        if reused.high == 0 and worst.lost is not None and not _has_cause(worst, statements):
            hint = "; its lines do not show the cause (cache_prompt = false prints no line)"
        yield FirstLine("reused", f"It reused {reused}{of}{hint}.", worst.lines["cache_n"])


def _tasks(statements: Sequence[Data]) -> Iterator[FirstLine]:
    """Yield what the server does not do for the log's requests, if their paths show it."""
    for said in statements:
        if said["what"] == TASKS:
            yield FirstLine("reused", f"{said['says'][0].upper()}{said['says'][1:]}.", tuple(said["lines"]))


def _repairs(statements: Sequence[Data]) -> Iterator[FirstLine]:
    """Yield the pull requests that repair the losses of totals."""
    for said in statements:
        if said["what"] == TOTAL and (says := repair_text(said)):
            yield FirstLine("repair", says, tuple(said["lines"]))


def _has_cause(worst: RequestNumbers, statements: Sequence[Data]) -> bool:
    """True if a line proves why a request evaluated tokens again."""
    return any(said["what"] == "cause" and request_name(request_key(said)) == worst.name for said in statements)


def _has_loss(data: Data) -> bool:
    """True if the log proves that a request lost tokens, by its numbers or by a cause."""
    counts = (said["numbers"].get("lost") for said in data["statements"] if said["what"] in ("request", "cause"))
    return any(count is not None and _span(count).low for count in counts)


def _cure(data: Data) -> Iterator[FirstLine]:
    """Yield the best cure that a simulation of the log confirmed, or what would show one."""
    for cure in data["cures"][:1]:
        whose, basis = f"slot {cure['slot']}, task {cure['task']}", only_if(cure["rests_on"])
        yield FirstLine("cure", f"Cure: with {cure['change']}, {whose} evaluates {cure['evaluated']:,} instead of "
                        f"{cure['before']:,} tokens in a simulation of the log{basis}.")  # fmt: skip
    is_other = "contents" in data and data["contents"]["only_others"]           # software that is not simulated
    if not data["cures"] and _has_loss(data) and not is_other:
        says = "The log does not show what would help: cachesim advise tries flags, builds and changes of the client."
        yield FirstLine("cure", says)


def only_if(clauses: Sequence[str]) -> str:
    """Return the condition of a cure, ", only if ...", "" without one."""
    return f", only if {' and '.join(clauses)}, which the log does not show" if clauses else ""


def following(data: Data, command: str, out: str = "") -> str:
    """Return a command about the log that repeats the run of its import. ``out``: the scenario file of the import,
    which has the rule set, the model and the options, "" = none."""
    arguments: Sequence[str] = data["arguments"]
    if out:
        kept = {limit.name for limit in OF_A_RUN}
        raised = [word for pair in pairwise(arguments) if pair[0] == "--limit" and pair[1].partition("=")[0] in kept
                  for word in pair]  # fmt: skip
        return shell_command(["cachesim", command, out, *raised])
    if data["file"] == STDIN_NAME:
        return f"save the log in a file, then {shell_command(['cachesim', command, 'FILE', *arguments])}"
    return shell_command(["cachesim", command, data["file"], *arguments])


def _assumed(data: Data) -> Iterator[FirstLine]:
    """Yield the options that the simulation needs and that neither the log nor the user gave. Without agreement with
    the log nothing speaks for them."""
    manual = ENGINES[data["engine"]].manual
    flags = [flag_text(flag, value, manual.open_words) for name, value in data["assumed_options"].items()
             if (flag := manual.flag(name)) is not None]  # fmt: skip
    if data["line"] and flags and not data.get("rejected") and not data.get("undecided"):
        yield FirstLine("assumed", f"The simulation assumes {', '.join(flags)}: is that your setting?")


def _next(data: Data, out: str) -> Iterator[FirstLine]:
    """Yield the command to type next."""
    if not data["line"]:
        return
    costly = max(data["turns"], key=lambda turn: turn["lost"], default=None)
    if out and costly is not None:
        command = f"{following(data, 'why', out)} {costly['number']}" if costly["lost"] else following(data, "run", out)
        yield FirstLine("next", f"next: {command}")
    elif _has_loss(data) and data["file"] != STDIN_NAME:
        yield FirstLine("next", f"next: {following(data, 'advise', out)}")
    else:
        yield FirstLine("next", f"next: {following(data, 'import')} -o case.toml")
