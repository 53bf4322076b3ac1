"""Conversion of a server log into a scenario file and a report as data (for JSON and for the terminal)."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput, OverLimit, counted
from cachesim.base.limits import REBUILT, SOUGHT
from cachesim.base.untrusted_files import open_lines
from cachesim.engines.build_names import resolve_name
from cachesim.engines.contract import Engine
from cachesim.engines.registry import ENGINES
from cachesim.engines.shared.log_grammar import Number, PromptHint
from cachesim.engines.shared.newest_models import MEMORIES
from cachesim.scenarios.engine_cases import profiles_by_engine
from cachesim.scenarios.option_checks import model_named
from cachesim.scenarios.toml_writer import to_toml
from cachesim.tools.advise.case_facts import ASSUMED, CaseFacts
from cachesim.tools.server_logs.facts.conclusions import Conclusions, conclude, possible_profiles, printed_build
from cachesim.tools.server_logs.facts.log_gaps import MISSING, gap_lines
from cachesim.tools.server_logs.facts.log_reader import is_log, read_session
from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest
from cachesim.tools.server_logs.facts.session import LogSession
from cachesim.tools.server_logs.lines.line_prefixes import visible_text
from cachesim.tools.server_logs.lines.recognise import HEAD, engine_of_log, grammars, recognise, unknown_log
from cachesim.tools.server_logs.rebuild.case_facts_of_log import case_facts, logged_options
from cachesim.tools.server_logs.rebuild.reconstruction import Reconstruction
from cachesim.tools.server_logs.rebuild.settings_search import SearchSpace, solve
from cachesim.tools.server_logs.rebuild.slot_contents import BATCHES, UBATCH
from cachesim.tools.server_logs.report.log_causes import classify_requests, quote_as_comments, quoted_prompts, summary
from cachesim.tools.server_logs.report.log_contents import log_contents


class LogReading(NamedTuple):
    """A log before it is simulated: its messages, what follows from them, and what the file contains."""

    path: Path
    engine: Engine
    session: LogSession
    said: Conclusions
    contents: Mapping[str, Any]

    def as_data(self) -> dict[str, Any]:
        """Return the report on the log without a simulation, as data."""
        return _data(self, None, given=False, model=False)


class LogImport(NamedTuple):
    """Report on a log as data, the scenario file made from it ("" if no request can be simulated), the reconstruction
    behind both, why nothing was simulated ("" = another reason), and what the log shows about its server."""

    data: dict[str, Any]
    text: str
    found: Reconstruction | None
    refused: str = ""
    facts: CaseFacts | None = None


def import_log(path: Path, *args: Any, **named: Any) -> tuple[dict[str, Any], str]:
    """Return the report on a log as data, and the scenario file, as ``rebuild_log`` makes them."""
    return rebuild_log(path, *args, **named)[:2]


def read_log(
    path: Path, profiles: Sequence[str] = (), reading: Callable[[Iterator[str]], Iterable[str]] = iter
) -> LogReading:
    """Return a log as read, with what follows from it. ``profiles``: rule sets given by the user, which name the
    engine. ``reading`` wraps the iterator of lines, for a progress bar. Raise BadInput for a file that is not a log of
    a known server."""
    engine = _engine(path, profiles)
    grammar = grammars()[engine.name]
    session = read_session(engine.name, grammar, reading(open_lines(path)))
    if not is_log(session, grammar):
        raise unknown_log(path)
    return LogReading(
        path=path, engine=engine, session=session, said=conclude(session), contents=log_contents(session, grammar)
    )


def rebuild_log(
    path: Path, profiles: Sequence[str] = (), model: str = "", server: Mapping[str, Any] | None = None, name: str = "",
    reading: Callable[[Iterator[str]], Iterable[str]] = iter, with_text: bool = False,
) -> LogImport:
    """Return the report on a log, its scenario file, and its reconstruction: ``read_log``, then ``simulate_log``."""
    read = read_log(path, profiles, reading)
    return simulate_log(read, profiles, model, server, name=name, with_text=with_text)


def simulate_log(
    read: LogReading, profiles: Sequence[str], model: str, server: Mapping[str, Any] | None,
    name: str = "", with_text: bool = False, logs: int = 1,
) -> LogImport:
    """Return the report on a log, its scenario file, and its reconstruction.

    ``profiles``, ``model``, ``server``: rule sets, model and options given by the user, which override the log.
    ``name``: id of the scenario, "" = derived from the file name. ``with_text``: quote request texts from the log as
    comments in the file. ``logs``: number of logs that share the work budget. Raise BadInput.
    """
    engine = read.engine
    session = read.session
    grammar = grammars()[engine.name]
    logged = logged_options(engine, grammar, session, least=_least(session), given=server or {})
    options = logged.known
    possible, unknown = _rule_sets(engine, read.said)
    likely = (_by_date(engine, session) or [engine.newest]) if engine.newest in possible else []
    space = SearchSpace(
        profiles=tuple(profiles) or tuple(dict.fromkeys([*likely, *reversed(possible)])),
        models=(model_named(model, engine.name, files=True).model,) if model else _models(session),
        server=options,
        options={name: values for name, values in grammar.open.items() if name not in options},
        joint={name: values for name, values in grammar.hints(_prompts(session)).items() if name not in options},
    )
    found, refused = None, ""
    try:
        found = None if read.contents["only_others"] or grammar.nameless else solve(session, space, SOUGHT.now // logs)
    except BadInput as error:
        if server or isinstance(error, OverLimit):
            raise
        refused = f"not simulated: {error.cause}"
    data = _data(read, found, bool(profiles), bool(model))
    facts = None if found is None else case_facts(
        found, logged, data["statements"], run=read.said.main, is_given=bool(profiles)
    )
    data["assumed_options"] = _assumed_options(found, facts)
    data["missing"] += [*([refused] if refused else []), *(() if profiles else unknown)]
    quoted = quote_as_comments(quoted_prompts(open_lines(read.path))) if with_text else ""
    if with_text and not quoted:
        data["missing"].append("the log contains no request bodies: --with-text has nothing to quote")
    text = "" if found is None else _file(read.path, engine, found, name) + quoted
    return LogImport(data=data, text=text, found=found, refused=refused, facts=facts)


def _prompts(session: LogSession) -> list[PromptHint]:
    return [PromptHint(request.n_tokens, request.cache_n, request.created,
                       checked=[last + 1 for _, last, _ in request.checked], is_full=request.full)
            for request in session.requests if request.n_tokens]  # fmt: skip


def _assumed_options(found: Reconstruction | None, facts: CaseFacts | None) -> dict[str, Any]:
    """Return the options of the simulated server that the search assumed."""
    if found is None or facts is None:
        return {}
    return {name: found.server[name] for name, source in facts.sources.items() if source == ASSUMED}


WITHOUT_PROFILE = "without -p the rule set follows from the log"


def _engine(path: Path, profiles: Sequence[str]) -> Engine:
    """Return the engine of the given rule sets, else the engine that the lines of the log belong to. Raise BadInput for
    rule sets of several engines, and for rule sets of an engine that prints none of these lines."""
    given = list(profiles_by_engine(profiles))
    if len(given) > 1:
        cause = f"a log belongs to one engine, found rule sets of {', '.join(given)}"
        raise BadInput(cause, file=str(path), hint=WITHOUT_PROFILE)
    if given and _prints_any(given[0], islice(open_lines(path), HEAD * 25)):
        return ENGINES[given[0]]
    name = engine_of_log(islice(open_lines(path), HEAD * 25))
    if given and name is not None and _prints_any(name, islice(open_lines(path), HEAD * 25)):
        cause = f"a log of {name}: {given[0]} prints none of its first lines"
        raise BadInput(cause, file=str(path), hint=WITHOUT_PROFILE)
    if given:
        return ENGINES[given[0]]
    if name is None:
        raise unknown_log(path)
    return ENGINES[name]


def _prints_any(engine: str, lines: Iterable[str]) -> bool:
    """True if a server of the engine prints one of these lines."""
    return any(recognise(line, [engine]) for line in lines)


def _rule_sets(engine: Engine, said: Conclusions) -> tuple[Sequence[str], Sequence[str]]:
    """Return the rule sets that the main run of a log allows, and what is unknown about them. A printed build has the
    rules in force at that build."""
    statements = [one for one in said.statements if one.run == said.main]
    with suppress(BadInput):                                  # older than the oldest rule set
        found = resolve_name(f"{engine.name}@b{printed_build(statements)}")
        if found is not None:
            return (found.profile,), found.unknown
    return possible_profiles(engine.line, statements), ()


def _by_date(engine: Engine, session: LogSession) -> list[str]:
    """Return the rule set of the newest build at the date of a log, [] without a date or a rule set. The spelling of
    the lines may show an older build."""
    with suppress(BadInput):                                  # older than the oldest rule set
        found = resolve_name(f"{engine.name}@{session.date}")
        return [] if found is None else [found.profile]
    return []


def _least(session: LogSession) -> dict[str, int]:
    """Return the least sizes that a server needs for the lines of a log: slots, context and batch."""
    needed = max((max(*(_most(row, name) for name in _IN_CONTEXT), row.seen) for row in session.requests), default=0)
    return {"n_slots": _slots(session), "needed": needed, **_longest_batch(session)}


def _slots(session: LogSession) -> int:
    """Return the least number of slots that a server can have whose lines name these slots."""
    named = [line.slot for line in session.read_lines if line.slot is not None]
    return max([*named, *(request.slot for request in session.requests)], default=0) + 1


_IN_CONTEXT = ("n_tokens", "held", "end")
"""Numbers of tokens that the context of a slot holds."""


def _most(request: LoggedRequest, name: str) -> int:
    """Return the greatest value that a number can have, its least one if that is unknown."""
    found = request.range_of(name)
    return found.high if found is not None and found.high is not None else request.least(name)


def _longest_batch(session: LogSession) -> dict[str, int]:
    """Return the batch size [tokens] that the longest step between two batches of a prompt shows, nothing without a
    step. A batch also has the tokens of other slots, so that a step a few tokens below a usual size shows that size."""
    lengths: dict[tuple[int | None, int | None], int | None] = {
        (request.slot, request.task): request.n_tokens for request in session.requests
    }
    end = grammars()[session.engine].end
    begun: dict[tuple[int | None, int | None], list[int]] = {}
    for line in session.read_lines:
        if line.kind == "batch" and (p0 := line.number_of("p0")) is not None:
            begun.setdefault((line.slot, line.task), []).append(p0)
    longest = least = 0
    for prompt, starts in begun.items():
        steps = [after - before for before, after in pairwise(starts)]
        if steps and lengths.get(prompt) == starts[-1] + end:
            size, is_exact = _last_step(steps, end)
            steps[-1:] = [size] * is_exact
            least = max(least, size)
        longest = max([longest, *steps])
    if longest < least:                         # no step is a whole batch
        return {"n_batch": least} if least > DEFAULT_BATCH else {}
    usual = next((size for size in BATCHES if longest <= size <= longest + FEWER), longest)
    return {"n_batch": usual} if longest else {}


def _last_step(steps: Sequence[int], end: int) -> tuple[int, bool]:
    """Return the least batch size that the step before the last tokens of a prompt shows, and whether it is that size.
    A server divides a prompt ``end`` tokens before its end, and a micro-batch earlier if a batch is longer than that,
    else a batch before the end of the prompt."""
    if len(steps) > 1 and steps[-1] == UBATCH:
        return UBATCH + end, False
    size = steps[-1] + end
    return (size, True) if len(steps) > 1 and size in BATCHES else (steps[-1], False)


DEFAULT_BATCH = 2048          # tokens of a batch, if no flag sets it
FEWER = 8                     # tokens by which a batch may be shorter than its limit
WINDOWS = (128, 512, 1024, 4096, 32)
"""Window sizes of known models [tokens], tried if the log does not contain the size. The last is that of toy models."""


def _models(session: LogSession) -> tuple[str, ...]:
    """Return model kinds that fit the memory lines of the log, most likely first."""
    facts = session.facts
    spans = [span for row in session.requests for span in [*row.spans, *((lo, hi) for lo, hi, _ in row.checked)]]
    if newest := next((layers for name, layers in MEMORIES.items() if name in facts), ""):
        size = facts.get("n_swa")
        return (newest.format(size if isinstance(size, int) and size > 1 else WINDOWS[0]),)
    windows = _windows(facts.get("n_swa"), next((hi - lo + 1 for lo, hi in spans if lo < hi), 0))
    if windows:
        both = ("G W{0}", "W{0} A") if facts.get("recurrent_layers") else ("W{0} A", "G W{0}")
        return tuple(kind.format(size) for size in windows for kind in (*both, "C W{0}"))
    state = any(row.pos_min and row.held and row.pos_min == row.held - 1 for row in session.requests)
    if facts.get("recurrent_layers") or state or any(lo == hi for lo, hi in spans):
        return ("GGGA", "S") if facts.get("attention_layers", 1) else ("S",)
    full = any(row.full or row.restored is not None or _lost(row) for row in session.requests)
    others = (*(f"W{size} A" for size in WINDOWS), f"G W{WINDOWS[0]}", f"G W{WINDOWS[-1]}")
    return (*(("GGGA", "A") if full else ("A", "GGGA")), "S", *(() if facts.get("n_swa") in (0, 1) else others))


def _windows(n_swa: Number | str | None, span: int) -> list[int]:
    """Return window sizes that fit the log, most likely first. ``n_swa``: the printed size, if any. ``span``: positions
    in a memory with a window, which holds up to a micro-batch more than the window."""
    if isinstance(n_swa, int) and n_swa > 1:
        return [n_swa]
    sizes = (span - UBATCH, span, *WINDOWS) if span else ()
    return list(dict.fromkeys(size for size in sizes if 0 < size <= span))


def _lost(request: LoggedRequest) -> bool:
    """True if fewer tokens were reused than the slot shared with the prompt. Attention-only models never do
    that."""
    shared = request.lcp
    if shared is None and request.f_sim is not None and request.n_tokens and request.chosen == "lcp":
        shared = int((request.f_sim - 0.001) * request.n_tokens)
    return shared is not None and request.cache_n is not None and request.cache_n + 1 < shared


def _data(read: LogReading, played: Reconstruction | None, given: bool, model: bool) -> dict[str, Any]:
    session = read.session
    found = played or Reconstruction("", "", {})
    gaps = gap_lines(session)
    is_complete = found.is_complete and not gaps          # else the missing lines may explain what differs
    happened = [] if found.is_rejected else classify_requests(found.requests)
    return {
        "cures": [], "first_lines": [], "arguments": [],      # the command adds them
        "file": str(read.path), "engine": read.engine.name, "profile": found.profile, "profile_given": given,
        "model": found.model, "model_given": model, "server": dict(found.server), "lines": session.lines,
        "recognised": sum(run.recognised for run in (session, *session.others)),
        "log_requests": len(session.requests) + session.beyond,
        "contents": read.contents,
        "statements": [statement.as_data() for statement in read.said.statements],
        "requests": [_request(found, number) for number in range(len(found.requests))],
        "turns": [{name: value for name, value in turn._asdict().items() if name != "forced"} for turn in happened],
        "agree": found.score[0], "differ": -found.score[1] - found.undecided, "undecided": found.undecided,
        "summary": summary(happened),
        "missing": [] if read.contents["only_others"] else list(_missing(session, played, gaps)),
        "line": found.line, "rejected": found.is_rejected, "candidates": found.candidates,
        "complete": is_complete,
        "contradicted": [{**line._asdict(), "by_all": is_complete and line.line in found.unmet}
                         for line in found.contradicted],
    }  # fmt: skip


def _request(found: Reconstruction, number: int) -> dict[str, Any]:
    request = found.requests[number]
    logged = request.logged
    return {
        "request": None if request.step < 0 else request.step, "step": request.step, "text": request.text,
        "slot": logged.slot if logged.is_slot_known else None, "task": logged.task,
        "lines": list(logged.lines), "n_tokens": logged.n_tokens, "cache_n": logged.cache_n,
        "prompt_n": logged.prompt_n, "predicted_n": logged.predicted_n, "simulated": request.simulated_n,
        "agrees": found.agrees(number), "undecided": found.open(number),
        "lcp": request.common, "assumed": request.assumed, "left_out": request.left_out,
    }  # fmt: skip


TRACED = frozenset({"ckpt_create", "ckpt_check", "ckpt_restore", "ckpt_invalidate", "pc_state", "pc_search", "pc_cand",
                    "pc_save", "pc_load", "n_past", "new_prompt", "batch", "slot_sim"})  # fmt: skip
"""Kinds of lines that newer servers print at a raised verbosity only; their presence shows that it was raised."""


GAPS = 6                       # lines named at which others are missing
LOOKED_AT = 200                # unknown lines that are compared with the lines of other servers, at most


def _lines_of_others(session: LogSession) -> Iterator[str]:
    """Yield a note on the lines that another server prints and this one does not: two logs may be mixed in the file."""
    found: dict[str, list[int]] = {}
    for number, text in session.unknown[:LOOKED_AT]:
        for line in recognise(text)[:1]:
            found.setdefault(line.engine, []).append(number)
    for engine, numbers in found.items():
        name = ENGINES[engine].recorded.name
        yield f"not read: {counted(len(numbers), 'line')} that {name} prints, from line {numbers[0]:,} on"


def _missing(session: LogSession, found: Reconstruction | None, gaps: Sequence[int]) -> Iterator[str]:
    """Yield notes on what the report lacks: requests not simulated, values not in the log and the server flag that logs
    them, and candidates not tried because the search stopped early."""
    yield from _lines_of_others(session)
    total = len(session.requests) + session.beyond
    if found is not None and total > (played := len(found.requests)):
        option = (REBUILT if played == REBUILT.now else SOUGHT).option
        yield f"only the first {played:,} of {total:,} requests were simulated ({option} simulates more)"
    grammar, kinds = grammars()[session.engine], session.kinds
    if grammar.nameless:
        yield f"for requests beside others, {grammar.nameless}" if session.requests else grammar.nameless
        return
    slots = [request for request in session.requests if request.is_named]
    if any(request.cache_n is None and not request.is_named for request in session.requests):
        yield "the log lacks the number of reused tokens: start the server with --log-level DEBUG"
    if slots and TRACED.isdisjoint(kinds):
        yield "no line is about checkpoints or the prompt cache: a server started with -lv 4 logs them"
    if slots and "prompt_time" not in kinds:
        yield "the log has no timings: evaluated tokens are known only from batches or checkpoints"
    if any(not request.is_whole for request in session.requests):
        yield "the log starts in the middle of a request"
    if gaps:
        where = ", ".join(f"{number:,}" for number in gaps[:GAPS]) + (", ..." if len(gaps) > GAPS else "")
        yield f"{MISSING} at line {where}: the log does not show what happened there"
    if found is not None and (first := next((one.step for one in found.requests if one.step >= 0), 0)):
        yield f"{counted(first, 'request')} at the start of the scenario: what the slot held before the log begins"
    if found is not None and found.is_rejected and not found.is_complete:
        yield from _untried(found)


def _untried(found: Reconstruction) -> Iterator[str]:
    """Yield what the search did not try, and the option that tries it, if there is one."""
    prefixes = [f"prefixes of {counted(len(found.untried_requests), 'request')}"] if found.untried_requests else []
    values = [*found.untried_settings, *prefixes]
    if values:
        yield f"the search stopped early, after {SOUGHT.now:,} {SOUGHT.unit}; not all values were tried of: " \
              f"{', '.join(values)} ({SOUGHT.option} allows more)"
    if found.with_length:
        yield f"the log does not print the prompt lengths of {counted(len(found.with_length), 'request')}: not all " \
              f"combinations of lengths were tried"


def _file(path: Path, engine: Engine, found: Reconstruction, name: str) -> str:
    """Return the scenario file as text. Its `why` lists the assumptions."""
    scenario = found.scenario
    assumed = [f"request {request.step}: {request.assumed}" for request in found.requests
               if request.assumed and request.step >= 0]  # fmt: skip
    why = f"Reconstructed from a log of {engine.recorded.name}: lengths and branches are logged, words invented."
    if assumed:
        why += f" Assumed: {'; '.join(assumed[:20])}."
    if found.is_rejected:
        lines = ", ".join(str(line.line) for line in found.contradicted[:20]) or "reused tokens"
        why += f" Not reproduced: the simulation prints other numbers than the log ({lines})."
    stem = "".join(sign if sign.isascii() and (sign.isalnum() or sign == "-") else "-" for sign in path.stem.lower())
    head = {
        "id": name or f"import-{stem.strip('-') or 'log'}"[:80],
        "title": f"imported from {visible_text(path.name)}"[:120],
        "source": ["cachesim"], "why": why, "engine": engine.name, "model": found.model, "profiles": [found.profile],
    }  # fmt: skip
    return to_toml(head, scenario.server, scenario.words, [step.asked for step in scenario.steps])
