"""Reports on constructed imports: the only place of their sentences. python -m tests.unit.tools.request_bodies.reports
rewrites them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

from cachesim.base.console import as_text
from cachesim.tools.request_bodies.report import CAUSES, SHOWN, bodies_report

FILE = Path(__file__).with_name("reports.txt")
CAUSE = {"name": "date", "says": "the date", "detail": "", "where": "", "path": "", "character": 0, "again": 1500,
         "in_requests": [1], "harmless": False, "evidence": None, "advice": ""}  # fmt: skip
ROW = {"request": 0, "conversation": 1, "tokens": 2000, "reusable": 0, "again": 0, "simulated": 0, "cause": "new",
       "path": "", "parameters": [], "not_kept": 0, "foreign": 0, "refusal": "", "reload": ""}  # fmt: skip
PLAYED = {"played": 2, "profile": "p@1", "model": "A", "tokens": 4000, "reused": 1000, "new_tokens": 1500,
          "again": 1500, "not_kept": 0, "adapters": "", "assumed": [], "refused": "", "foreign": 0,
          "adapters_assumed": False, "not_played": 0, "limit": "", "unnamed": [], "other_not_kept": None}  # fmt: skip
CURE = {"advice": "keep it", "saved": 1200, "evaluated": 3000, "first_requests": 2, "other_model": None}
CHANGED = {**ROW, "request": 1, "again": 1500, "reusable": 1000, "cause": "date", "path": "messages[0]"}
DATA = {"requests": [ROW, CHANGED], "files": ["a.jsonl"], "arguments": [], "simulation": PLAYED, "tokens_exact": True,
        "tokens": 4000, "again": 1500, "most": 256, "losing": [1], "causes": [CAUSE],
        "forms": ["chat"], "conversations": 1, "tokenizer": "t",
        "rendering": "plain", "skipped": 0, "media": 0, "models": ["m"], "cure": None,
        "reported": None}  # fmt: skip
SEEN = {"previous": 3, "request": 4, "text_common": "x" * 20, "text_before": "é\n", "text_after": "y" * 80}


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (name, other fields of the data) of each report."""
    yield "a changed prompt", {}
    yield "a cure", {"cure": CURE}
    assumed = {**PLAYED, "unnamed": ["profile", "model"]}
    for saved in (600, 1200, 0):
        other = {"model": "AA", "saved": saved, "evaluated": 3000}
        yield f"a cure under assumptions, {saved} with another model", {
            "cure": {**CURE, "other_model": other}, "simulation": assumed}
    yield "a cure of the first requests", {"requests": [ROW, CHANGED, CHANGED], "cure": CURE}
    yield "a cure that saves nothing", {"cure": {**CURE, "saved": 0}}
    yield "a cure that is not simulated", {"cure": {**CURE, "saved": None}}
    better = {"too_slow": False, "client": False, "saved": 1300, "evaluated": 3000, "share": 0.43, "text": "-x 1"}
    yield "another change that saves more", {"cure": CURE, "saved": better}
    yield "another change that saves less", {"cure": CURE, "saved": {**better, "saved": 1200}}
    for other in (None, 0):
        yield f"tokens that a server does not keep, with another model {other}", {
            "losing": [], "causes": [], "simulation": {**assumed, "not_kept": 500, "other_not_kept": other}}
    yield "estimated tokens", {"again": 400, "tokens_exact": False}
    yield "changes without a loss", {"losing": []}
    yield "harmless changes", {"losing": [], "causes": [{**CAUSE, "harmless": True}]}
    fields = [{"name": "messages[3].x[1]", "matters": "perhaps"}, {"name": "messages[4].x[0]", "matters": "unknown"},
              {"name": "seed", "matters": "no"}]
    yield "changed fields", {"losing": [], "causes": [], "requests": [{**ROW, "parameters": fields}]}
    cause = {**CAUSE, "detail": "shorter", "where": "the system prompt", "path": "messages[0]", "character": 1234,
             "evidence": SEEN, "advice": "put it last"}  # fmt: skip
    yield "evidence and advice", {"causes": [cause]}
    yield "evidence without text", {"causes": [{**cause, "evidence": {**SEEN, "text_before": "", "text_after": "y"}}]}
    yield "many causes", {"causes": [CAUSE] * (CAUSES + 2) + [{**CAUSE, "harmless": True}]}
    yield "refused requests", {"requests": [ROW, {**CHANGED, "refusal": "messages[0]: no"}]}
    again = [{**ROW, "reload": "keep_alive"}, {**CHANGED, "reload": "options.num_ctx"}]
    yield "models loaded again", {"requests": again}
    yield "notes", {"skipped": 2, "media": 1, "models": ["m", "n"], "forms": ["chat", "raw"], "tokens_exact": False}
    effects = [{"name": f"f-{matters}", "matters": matters} for matters in ("yes", "perhaps", "no", "unknown")]
    yield "effects of fields", {"requests": [{**ROW, "parameters": effects}] * 2}
    yield "not simulated", {"simulation": {"played": 0, "limit": "too long"}}
    yield "a limit and adapters", {"simulation": {**PLAYED, "not_played": 3, "limit": "--limit", "adapters": "given"}}
    for is_assumed in (True, False):
        yield f"tokens of other adapters, assumed: {is_assumed}", {
            "requests": [ROW, {**ROW, "request": 1, "foreign": 7}],
            "simulation": {**PLAYED, "foreign": 7, "adapters_assumed": is_assumed}}
    yield "many requests", {"requests": [{**ROW, "request": number} for number in range(SHOWN + 1)]}
    yield "files and arguments", {"files": ["a", "b"], "arguments": ["--template", "t"]}


def shown() -> str:
    """Return all reports."""
    found = []
    for name, fields in cases():
        lines = [line.rstrip() for line in as_text(bodies_report({**DATA, **fields}, "", False)).splitlines()]
        found.append("\n".join([f"== {name}", *lines]))
    return "\n\n".join(found) + "\n"


if __name__ == "__main__":
    FILE.write_text(shown(), "utf-8")
