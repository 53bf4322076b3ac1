"""A log becomes a scenario, and what was found is data: for the file, for JSON and for the eye."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from cachesim.base.errors import counted
from cachesim.base.limits import REBUILT, SOUGHT
from cachesim.base.untrusted_files import open_lines
from cachesim.engines.contract import Engine
from cachesim.engines.registry import ENGINES
from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.scenarios.toml_writer import to_toml
from cachesim.tools.server_logs.line_prefixes import plain
from cachesim.tools.server_logs.log_causes import comments, summary, texts, turns
from cachesim.tools.server_logs.log_reader import read_session
from cachesim.tools.server_logs.log_scenario import Open, solve
from cachesim.tools.server_logs.recognise import HEAD, engine_of_log, grammars, no_log
from cachesim.tools.server_logs.reconstruction import Rebuild
from cachesim.tools.server_logs.session import Logged, LogSession


def import_log(
    path: Path, profiles: Sequence[str] = (), model: str = "", server: Mapping[str, Any] | None = None, name: str = "",
    reading: Callable[[Iterator[str]], Iterable[str]] = iter, with_text: bool = False, logs: int = 1,
) -> tuple[dict[str, Any], str]:
    """What a log says, as data, and the scenario file that was made of it ("" if nothing can be played).

    ``profiles``, ``model``, ``server``: rule sets, model and options that are known better than from the log; ``name``:
    the scenario's id, "" = one after the log; ``reading`` is given the lines, to show how far it is;
    ``with_text``: the file quotes the requests' texts that stand in the log; ``logs``: of so many, which share the work
    that may be done, this is one. Raises BadInput for a file that is no log
    of a server that is known."""
    engine = _engine(path, profiles)
    grammar = grammars()[engine.name]
    session = read_session(engine.name, grammar, reading(open_lines(path)))
    options = {**_options(engine, grammar, session), **(server or {})}
    lengths = [(one.n_tokens, one.cache_n) for one in session.requests if one.n_tokens]
    found = solve(session, Open(
        tuple(profiles) or tuple(dict.fromkeys([engine.newest or engine.line[-1], *reversed(engine.line)])),
        (model,) if model else _models(session), options,
        {name: values for name, values in grammar.open.items() if name not in options},
        {name: values for name, values in grammar.hints(lengths).items() if name not in options},
    ), SOUGHT.now // logs)  # fmt: skip
    data = _data(path, engine, session, found, bool(profiles), bool(model))
    quoted = comments(texts(open_lines(path))) if with_text else ""
    if with_text and not quoted:
        data["missing"].append("no body of a request is in this log: --with-text has nothing to quote")
    return data, "" if found is None else _file(path, engine, found, name) + quoted


def _engine(path: Path, profiles: Sequence[str]) -> Engine:
    """Whose log it is: by the rule sets that are named, else by its lines."""
    if profiles:
        return ENGINES[profiles[0].partition("@")[0]]
    name = engine_of_log(islice(open_lines(path), HEAD * 25))
    if name is None:
        raise no_log(path)
    return ENGINES[name]


def _options(engine: Engine, grammar: LogGrammar, session: LogSession) -> dict[str, Any]:
    """The server options that the log says, as far as this engine has them and they are of their type."""
    slots = {one.slot for one in session.requests}
    needed = max((max(one.n_tokens or 0, one.held or 0, one.seen) for one in session.requests), default=0)
    facts = {"n_slots": max(slots, default=0) + 1, "needed": needed, **session.facts}
    out = {}
    for name, value in grammar.options(facts).items():
        flag = engine.manual.flag(name)
        if flag is not None and type(value) is type(flag.default):
            out[name] = value
    return out


WINDOWS = (128, 512, 1024, 4096, 32)
"""Windows of known models, to try where the log does not say one; the last is that of toy models."""


def _models(session: LogSession) -> tuple[str, ...]:
    """Kinds of model that may fit what the log shows of its memory, the likeliest first."""
    facts = session.facts
    spans = [span for one in session.requests for span in [*one.spans, *((lo, hi) for lo, hi, _ in one.checked)]]
    window = next((hi - lo + 1 for lo, hi in spans if lo < hi), 0)
    n_swa = facts.get("n_swa")
    window = n_swa if isinstance(n_swa, int) and n_swa > 1 else window
    if window:
        both = (f"G W{window}", f"W{window} A") if facts.get("recurrent_layers") else (f"W{window} A", f"G W{window}")
        return (*both, f"C W{window}")
    state = any(one.pos_min and one.held and one.pos_min == one.held - 1 for one in session.requests)
    if facts.get("recurrent_layers") or state or any(lo == hi for lo, hi in spans):
        return ("GGGA", "S") if facts.get("attention_layers", 1) else ("S",)
    full = any(one.full or one.restored is not None or _lost(one) for one in session.requests)
    windows = () if n_swa in (0, 1) else (*(f"W{size} A" for size in WINDOWS), f"G W{WINDOWS[0]}", f"G W{WINDOWS[-1]}")
    return (*(("GGGA", "A") if full else ("A", "GGGA")), "S", *windows)


def _lost(one: Logged) -> bool:
    """Was less reused than the slot had in common with the prompt? Attention alone can always go back."""
    shared = one.lcp
    if shared is None and one.f_sim is not None and one.n_tokens and one.chosen == "lcp":
        shared = int((one.f_sim - 0.001) * one.n_tokens)
    return shared is not None and one.cache_n is not None and one.cache_n + 1 < shared


def _data(path: Path, engine: Engine, session: LogSession, played: Rebuild | None, given: bool,
          model: bool) -> dict[str, Any]:
    found = played or Rebuild("", "", {})
    happened = turns(found.requests)
    return {
        "file": str(path), "engine": engine.name, "profile": found.profile, "profile_given": given,
        "model": found.model, "model_given": model, "server": dict(found.server), "lines": session.lines,
        "recognised": session.recognised, "log_requests": len(session.requests) + session.beyond,
        "requests": [_request(found, number) for number in range(len(found.requests))],
        "turns": [{name: value for name, value in one._asdict().items() if name != "forced"} for one in happened],
        "agree": found.score[0], "differ": -found.score[1] - found.undecided, "undecided": found.undecided,
        "summary": summary(happened), "missing": list(_missing(session, played)),
        "line": found.line,
    }  # fmt: skip


def _request(found: Rebuild, number: int) -> dict[str, Any]:
    one = found.requests[number]
    logged = one.logged
    return {
        "request": number, "step": one.step, "text": one.text, "slot": logged.slot, "task": logged.task,
        "lines": list(logged.lines), "n_tokens": logged.n_tokens, "cache_n": logged.cache_n,
        "prompt_n": logged.prompt_n, "predicted_n": logged.predicted_n, "simulated": one.got,
        "agrees": found.agrees(number), "undecided": found.open(number),
        "lcp": one.lcp, "assumed": one.assumed, "left_out": one.left_out,
    }  # fmt: skip


def _missing(session: LogSession, found: Rebuild | None) -> Iterator[str]:
    """How many requests are left out behind the last that is played; what the log could have said, and how to make it;
    what was not tried, where the search was cut."""
    total = len(session.requests) + session.beyond
    if found is not None and total > (played := len(found.requests)):
        flag = (REBUILT if played == REBUILT.now else SOUGHT).flag
        yield f"of {total:,} requests the first {played:,} were played: {flag} N plays more"
    kinds = session.kinds
    slots = [one for one in session.requests if one.named]
    if any(one.guessed and not one.named for one in session.requests):
        yield "what was reused is not in this log: start the server with --log-level DEBUG"
    if slots and not {"ckpt_create", "ckpt_check", "pc_state", "n_past"} & set(kinds):
        yield "checkpoints and the prompt cache are not in this log: start the server with -lv 4"
    if slots and "prompt_time" not in kinds:
        yield "the log has no timings: what was evaluated is known only where it lists batches or checkpoints"
    if any(not one.whole for one in session.requests):
        yield "the log begins in the middle of a request"
    if found is not None and found.undecided:
        going_on = [f"what {counted(len(found.untried), 'request')} may go on from"] if found.untried else []
        yield f"the search was cut after {SOUGHT.now:,} {SOUGHT.unit}; not all was tried of: " \
              f"{', '.join([*found.unsought, *going_on])}; {SOUGHT.flag} N does more"


def _file(path: Path, engine: Engine, found: Rebuild, name: str) -> str:
    """The scenario file; what was assumed stands in its `why`."""
    scenario = found.scenario
    assumed = [f"request {one.step}: {one.assumed}" for one in found.requests if one.assumed and one.step >= 0]
    why = f"Rebuilt from a log of {engine.recorded.name}: lengths and branches are its own, words are invented."
    if assumed:
        why += f" Assumed: {'; '.join(assumed[:20])}."
    stem = "".join(sign if sign.isascii() and (sign.isalnum() or sign == "-") else "-" for sign in path.stem.lower())
    head = {
        "id": name or f"import-{stem.strip('-') or 'log'}"[:80], "title": f"imported from {plain(path.name)}"[:120],
        "source": ["cachesim"], "why": why, "engine": engine.name, "model": found.model, "profiles": [found.profile],
    }  # fmt: skip
    return to_toml(head, scenario.server, scenario.words, [step.asked for step in scenario.steps])
