"""Contents of a log, which need no request: server runs, fill of the prompt cache, entries, checkpoints, evictions,
warnings and unknown lines. Every value was printed by the line whose number stands beside it."""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable, Iterator, Mapping, Sequence

from rich.text import Text

from cachesim.base.errors import counted
from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.tools.server_logs.facts.session import LogSession
from cachesim.tools.server_logs.lines.explanations import ordinary_name
from cachesim.tools.server_logs.lines.read_lines import ReadLine

Data = dict[str, Any]
MOST = 1_000                 # rows of a list, at most
SHOWN = 6                    # rows of a list in the report; -v shows all
_EVICTIONS = {"pc_evict": "size limit", "pc_evict_tokens": "token limit", "pc_obsolete": "part of a longer entry",
              "pc_too_big": "larger than the limit"}  # fmt: skip
_CHECKPOINTS = {"ckpt_create": "created", "ckpt_restore": "restored", "ckpt_invalidate": "erased",
                "ckpt_evict": "erased", "ckpt_too_close": "erased", "ckpt_supersede": "erased"}  # fmt: skip
_LIMITS = ("no_limit", "no_cache")
_CHECKPOINT_FIELDS = ("pos_min", "pos_max", "n_tokens", "n_past", "mib", "n", "max")


def log_contents(session: LogSession, grammar: LogGrammar) -> Data:
    """Return the contents of all server runs in a file as data."""
    runs = sorted((session, *session.others), key=lambda run: run.first)
    lines = sorted((line for run in runs for line in run.read_lines), key=lambda line: line.number)
    by = Counter(line.read.line.by for line in lines)
    others = [name for name, _ in by.most_common() if name]
    return {
        "software": others, "only_others": bool(others) and not by[""],
        "runs": [{"first": run.first, "last": run.lines if run is not session else _last(run), "known": run.recognised}
                 for run in runs],
        "cache": _last_state(lines), "entries": _entries(lines),
        "checkpoints": [_row(line, _CHECKPOINT_FIELDS, what=_CHECKPOINTS[line.kind], kind=line.kind,
                             slot=line.slot, task=line.task)
                        for line in lines if line.kind in _CHECKPOINTS][:MOST],
        "evictions": [_row(line, ("n_tokens", "mib", "limit_mib"), what=_EVICTIONS[line.kind], kind=line.kind)
                      for line in lines if line.kind in _EVICTIONS][:MOST],
        "warnings": _warnings(runs, lines, grammar),
        "kinds": dict(Counter(line.kind for line in lines)),
        "unknown": [{"line": number, "text": text} for run in runs for number, text in run.unknown
                    if not ordinary_name(grammar, text)][:MOST],
    }  # fmt: skip


def _last(run: LogSession) -> int:
    """Return the last line of the main run, whose ``lines`` counts the lines of the file."""
    return max([run.first, *(line.number for line in run.read_lines[-1:]), *(number for number, _ in run.unknown[-1:])])


def _row(line: ReadLine, fields: Sequence[str], **more: Any) -> Data:
    """Return a line with the named numbers that it prints. A word in place of a number is left out."""
    found = {name: value for name in fields if isinstance(value := line.read.numbers.get(name), int | float)}
    return {"line": line.number, **more, "numbers": found}


def _last_state(lines: Sequence[ReadLine]) -> Data | None:
    """Return the last printed state of the prompt cache, else its limit, None if the log prints neither."""
    for names in (("pc_state", "fetch", "disk"), ("start_cache", *_LIMITS)):
        found = [line for line in lines if line.kind in names and (line.read.numbers or line.kind in _LIMITS)]
        if found:
            line = found[-1]
            return {"line": line.number, "kind": line.kind, "text": line.text, "numbers": dict(line.read.numbers)}
    return None


def _entries(lines: Sequence[ReadLine]) -> list[Data]:
    """Return the entries of the prompt cache in the last list that was printed."""
    found: list[ReadLine] = []
    for line in lines:
        if line.kind == "pc_entry":
            found.append(line)
        elif line.kind == "pc_state":
            found = []
    return [_row(line, ("n_tokens", "checkpoints", "mib")) for line in found[-MOST:]]


def _warnings(runs: Sequence[LogSession], lines: Sequence[ReadLine], grammar: LogGrammar) -> list[Data]:
    """Return the warnings and errors of the server: known kinds of line, and unknown lines of level W or E."""
    known = [(line.number, line.text) for line in lines if line.kind in grammar.warnings]
    unknown = [found for run in runs for found in run.alarms]
    return [{"line": number, "text": text} for number, text in sorted({*known, *unknown})][:MOST]


def contents_report(data: Data, everything: bool) -> Iterator[Text]:
    """Yield the contents as lines of the report. ``everything`` shows all rows, and the unknown lines."""
    if data["software"]:
        where = "Log of" if data["only_others"] else "Contains lines of"
        yield Text(f"{where} {', '.join(data['software'])}, which is not simulated.", "bold yellow")
    if len(data["runs"]) > 1:
        spans = [f"{run['first']:,}-{run['last']:,}" for run in data["runs"]]
        yield Text(f"server runs: {len(spans)} (lines {_cut(spans, everything)})")
    if data["cache"] is not None:
        yield Text(f"prompt cache: {data['cache']['text'].strip(' -')} (line {data['cache']['line']:,})")
    yield from _rows("entries", data["entries"], _entry_text, everything)
    for what in ("created", "restored", "erased"):
        rows = [row for row in data["checkpoints"] if row["what"] == what]
        yield from _rows(f"checkpoints {what}", rows, _checkpoint_text, everything)
    yield from _rows("evictions", data["evictions"], _eviction_text, everything)
    for row in data["warnings"] if everything else data["warnings"][:SHOWN]:
        yield Text(f'warning in line {row["line"]:,}: "{row["text"]}"', "yellow")
    if (more := len(data["warnings"]) - SHOWN) > 0 and not everything:
        yield Text(f"... {counted(more, 'more warning')} with -v", "dim")
    if everything:
        for row in data["unknown"]:
            yield Text(f"unknown line {row['line']:,}: {row['text']}", "dim")
    elif data["unknown"]:
        yield Text(f"{counted(len(data['unknown']), 'unknown line')}; -v lists them", "dim")


def _cut(texts: Sequence[str], everything: bool) -> str:
    return ", ".join(texts if everything else texts[:SHOWN]) + ("" if everything or len(texts) <= SHOWN else ", ...")


def _rows(name: str, rows: Sequence[Data], text_of: Callable[[Data], str], everything: bool) -> Iterator[Text]:
    """Yield a line with the rows of a list."""
    if rows:
        texts = [f"{text_of(row)} (line {row['line']:,})" for row in rows]
        yield Text(f"{name}: {len(rows):,}: {_cut(texts, everything)}")


def _entry_text(row: Data) -> str:
    numbers: Mapping[str, Any] = row["numbers"]
    size = f", {numbers['mib']:,} MiB" if "mib" in numbers else ""
    n_tokens = numbers.get("n_tokens")
    return f"{n_tokens:,} tokens{size}" if isinstance(n_tokens, int) else f"entry{size}"


def _checkpoint_text(row: Data) -> str:
    numbers: Mapping[str, Any] = row["numbers"]
    where = f"slot {row['slot']} " if row["slot"] is not None else ""
    if "pos_min" in numbers:
        return f"{where}[{numbers['pos_min']}, {numbers.get('pos_max', '?')}]"
    return f"{where}{numbers.get('n_tokens', '?')} tokens"


def _eviction_text(row: Data) -> str:
    numbers: Mapping[str, Any] = row["numbers"]
    parts = [f"{numbers['n_tokens']} tokens"] if "n_tokens" in numbers else []
    parts += [f"{numbers['mib']} MiB"] if "mib" in numbers else []
    return f"{' '.join(parts) or 'an entry'}, {row['what']}"
