"""Page and its picture, made from the lines of cells.

    python -m tests.workloads.page LINES [--agree LINES] [--unscaled LINES]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Callable, Iterable, Sequence

from cachesim.tools.workload.cell_jobs import summed
from tests.workloads.blocks import parts as pool_parts
from tests.workloads.cells import read_lines
from tests.workloads.grid import MODELS, RULE_SETS, SETTINGS, WITHOUT, as_default, columns, has, knows
from tests.workloads.markdown import over, share, table
from tests.workloads.plots import loss_picture
from tests.workloads.shared import Shared, answered, held, in_words, seen_of, wrong_of
from tests.workloads.words import (
    AGENTS,
    ALL,
    BOUNDS,
    DISTANCES,
    FINDINGS,
    FINER,
    HEAD,
    LOSSES,
    MEMORY,
    METHOD,
    TOGETHER,
    UNSCALED,
)

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "scenarios" / "WORKLOADS.md"
PICTURE = ROOT / "scenarios" / "pictures" / "workloads-loss.svg"
SHOWN = f"![re-evaluated tokens of each rule set, with their causes](pictures/{PICTURE.name})"
Line = dict[str, Any]
COLUMNS = (*SETTINGS, WITHOUT)
SHARED_WORDS = {"default": "default", "one": "-np 1", "one_all": "-np 1, cache-ram -1", "two": "-np 2", "each": "-np 4"}


class Results:
    """Lines by cell, and their sums."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.cells: dict[tuple[str, str, str], list[Line]] = {}
        for one in lines:
            self.cells.setdefault((one["rules"], one["kind"], one["setting"]), []).append(one)
        for one in columns():
            if one.setting != "default" and as_default(one.profile, one.kind, one.given):
                plain = self.cells.get((one.rules, one.kind, "default"))
                if plain is not None:
                    self.cells[one.rules, one.kind, one.setting] = plain
        self.sessions = {kind: self._common(kind) for kind in MODELS}

    def _common(self, kind: str) -> frozenset[str]:
        """Return the sessions of the tables: those with every cell of this kind that ran in any session."""
        found = [{one["session"] for one in lines} for (_, of, _), lines in self.cells.items() if of == kind]
        return frozenset(set.intersection(*found)) if found else frozenset()

    def total(self, rules: str, kind: str, setting: str) -> Line | None:
        """Return the sum of a cell over the sessions of its kind, None if it did not run."""
        found = [one for one in self.cells.get((rules, kind, setting), ()) if one["session"] in self.sessions[kind]]
        return summed(found) if found else None

    def every(self, rules: str, kind: str) -> Line | None:
        """Return the sum of the default setting over all sessions in which it ran."""
        found = self.cells.get((rules, kind, "default"))
        return summed(found) if found else None

    def billed(self, rules: str, kind: str) -> dict[str, Line]:
        """Return the lines of the default setting with causes, by session."""
        found = self.cells.get((rules, kind, "default"), ())
        return {one["session"]: one for one in found if one["lost"] is not None}

    def judged(self, rules: str, kind: str, setting: str) -> tuple[int, int]:
        """Return the number of sessions with judged answers, and of wrong answers in them."""
        found = [one for one in self.cells.get((rules, kind, setting), ()) if one["wrong"] is not None]
        return len(found), sum(one["wrong"] for one in found)

    def seen(self, rules: str, kind: str, setting: str) -> str:
        """Return a note on wrong answers that were never seen on a real server."""
        return seen_of(self.cells.get((rules, kind, setting), ()))


def cell(results: Results, rules: str, kind: str, setting: str, show: Callable[[Line], str]) -> str:
    """Return the text of a cell in a table."""
    given = {} if setting == WITHOUT else SETTINGS[setting]
    known = has(RULE_SETS[rules], given) and knows(RULE_SETS[rules], kind)
    if not known or (setting == WITHOUT and rules != "latest"):
        return "n/a"
    found = results.total(rules, kind, setting)
    if found is None:
        return "not run"
    return show(found)


def evaluated(results: Results, kind: str) -> str:
    """Return rule sets by settings: evaluated tokens in per cent of the prompts."""
    rows = [[rules, *(cell(results, rules, kind, one, answered) for one in COLUMNS)] for rules in RULE_SETS]
    return table(["rule set", *COLUMNS], rows)


def sessions_of(results: Results, kind: str) -> str:
    """Return the sessions that the tables of a kind cover, in words."""
    one = results.total("latest", kind, "default")
    if one is None:
        return "Not run.\n"
    every = results.every("latest", kind)
    which = "all" if every is not None and every["sessions"] == one["sessions"] else "the shortest"
    return f"In {which} {one['sessions']} sessions, {one['prompt'] / 1e6:,.1f} million prompt tokens.\n"


def everything(results: Results) -> str:
    """Return rule sets over all sessions that ran with the default setting, hybrid."""
    rows = []
    for rules in RULE_SETS:
        one = results.every(rules, "hybrid")
        if one is not None:
            n, bad = results.judged(rules, "hybrid", "default")
            free = "-" if one["unlimited"] is None else share(one["unlimited"], one["prompt"])
            wrong_in = f"{bad} in {n}{results.seen(rules, 'hybrid', 'default')}"
            rows.append([rules, f"{one['sessions']}", share(one["evaluated"], one["prompt"]),
                         share(one["least"], one["prompt"]), over(one), free, wrong_in,
                         held(one)])  # fmt: skip
    head = ("rule set", "sessions", "evaluated", "at least", "above it", "unlimited memory", "wrong answers", "MiB")
    return table(head, rows)


def facts(results: Results, together: Shared, agents: Shared) -> dict[str, str]:
    """Return the numbers of the findings; "-" for missing results."""
    def full(rules: str, show: Callable[[Line], str]) -> str:
        one = results.every(rules, "hybrid")
        return show(one) if one is not None else "-"

    def part(rules: str, setting: str) -> str:
        one = results.total(rules, "hybrid", setting)
        return share(one["evaluated"], one["prompt"]) if one is not None else "-"

    out = {"least": full("latest", lambda one: share(one["least"], one["prompt"]))}
    names = {"latest": "latest", "b10587": "b10587", "ik": "ik main", "mlx": "mlx 0.32.2", "b6160": "b6160"}
    for word, rules in names.items():
        out[word] = full(rules, lambda one: share(one["evaluated"], one["prompt"]))
        out[f"{word}_over"] = full(rules, over)
    out["latest_free"] = full("latest", lambda one: share(one["unlimited"] or 0, one["prompt"]))
    settings = {"default": "default", "without": WITHOUT, "eight": "ctx-checkpoints 8", "many": "ctx-checkpoints 128",
                "close": "checkpoint-min-step 0", "no_cache": "cache-ram 0", "all_cache": "cache-ram -1"}  # fmt: skip
    out |= {word: part("latest", setting) for word, setting in settings.items()}
    out |= {f"ik_{word}": part("ik main", settings[word]) for word in ("default", "eight", "many")}
    out["mlx_gib"] = full("mlx 0.32.2", lambda one: f"{one['peak_cache'] / 1024:,.0f}")
    lines = [one for (_, _, setting), found in results.cells.items() if setting == "default" for one in found]
    judged = [one for one in lines if one["wrong"] is not None]
    for word, rules in (("latest", "latest"), ("repaired", "repaired"), ("b6160", "b6160")):
        window = [one for one in judged if (one["rules"], one["kind"]) == (rules, "window")]
        bad, every = (sum(one[name] for one in window) for name in ("wrong", "answered"))
        out[f"window_{word}"] = f"{bad:,} of {every:,}"
    out["judged"] = f"{sum(one['answered'] for one in judged):,}"
    for name, shared in (("four", together), ("agents", agents)):
        out[f"{name}_minimum"] = shared.fact("latest", "default", lambda one: share(one["least"], one["prompt"]))
        for word, setting in SHARED_WORDS.items():
            out[f"{name}_{word}"] = shared.fact("latest", setting, in_words)
    out["ik_wrong"] = together.fact("ik main", "-np 4", wrong_of)
    out["mlx_four"] = together.fact("mlx 0.32.2", "default", in_words)
    return out


def bounds(results: Results) -> str:
    """Return kinds by bounds, with the default setting."""
    def shown(name: str) -> Callable[[Line], str]:
        return lambda one: share(one[name], one["prompt"]) if one[name] is not None else "-"

    rows = []
    for kind in MODELS:
        least = cell(results, "latest", kind, "default", shown("least"))
        free = [cell(results, rules, kind, "default", shown("unlimited")) for rules in RULE_SETS]
        rows.append([f"{kind} ({MODELS[kind]})", least, *free, "100.00"])
    return table(["model", "at least", *RULE_SETS, "nothing kept"], rows)


def best(results: Results, rules: str, kind: str) -> tuple[str, Line] | None:
    """Return the setting with the fewest evaluated tokens over all sessions; of equals the least memory, then the
    default."""
    found = []
    for number, setting in enumerate(COLUMNS):
        one = results.total(rules, kind, setting)
        if one is not None and not one["refused"] + one["died"]:
            found.append((one["evaluated"], one["peak_checkpoints"] + one["peak_cache"], number, setting, one))
    return min(found)[3:] if found else None


def distances(results: Results) -> str:
    """Return rule sets by kinds: distance from the bound by default and with the best setting."""
    def shown(rules: str, kind: str) -> str:
        plain, found = results.total(rules, kind, "default"), best(results, rules, kind)
        if plain is None or found is None:
            return cell(results, rules, kind, "default", over)
        setting, one = found
        return over(plain) if setting == "default" else f"{over(plain)}; {over(one)} with {setting}"

    rows = [[rules, *(shown(rules, kind) for kind in MODELS)] for rules in RULE_SETS]
    return table(["rule set", *(f"{kind} ({model})" for kind, model in MODELS.items())], rows)


def memory(results: Results, kind: str) -> str:
    """Return rule sets by settings: MiB of checkpoints + prompt cache, maximum after any answer of any session."""
    rows = [[rules, *(cell(results, rules, kind, one, held) for one in COLUMNS)] for rules in RULE_SETS]
    return table(["rule set", *COLUMNS], rows)


def wrong(results: Results) -> str:
    """Return rule sets by kinds: wrong answers with the default setting, and the number of judged sessions."""
    def shown(rules: str, kind: str) -> str:
        n, bad = results.judged(rules, kind, "default")
        if n:
            return f"{bad} in {n} sessions{results.seen(rules, kind, 'default')}"
        return "not judged" if knows(RULE_SETS[rules], kind) else "n/a"

    return table(["rule set", *MODELS], [[rules, *(shown(rules, kind) for kind in MODELS)] for rules in RULE_SETS])


def losses(results: Results, kind: str) -> str:
    """Return rule sets by causes over the sessions with causes for all rule sets, and the name of their picture."""
    found = {rules: results.billed(rules, kind) for rules in RULE_SETS}
    common = set.intersection(*(set(one) for one in found.values()))
    if not common:
        return "Causes were not computed.\n"
    totals = {rules: summed([one[name] for name in sorted(common)]) for rules, one in found.items()}
    causes = list(dict.fromkeys(event for one in totals.values() for event in one["lost"]))
    rows = [[rules, *(share(one["lost"].get(event, 0), one["prompt"]) for event in causes),
             share(one["evaluated"], one["prompt"])] for rules, one in totals.items()]  # fmt: skip
    first = next(iter(totals.values()))
    text = f"In {len(common)} sessions, per cent of their {first['prompt']:,} prompt tokens.\n\n"
    return f"{text}{table(['rule set', *causes, 'evaluated'], rows)}\n{SHOWN}\n"


def unscaled(lines: Sequence[Line], scaled: Sequence[Line]) -> str:
    """Return rule sets by sessions: evaluated tokens at a finer scale, and the deviation of the other scale."""
    known = {(one["session"], one["rules"], one["kind"]): one for one in scaled if one["setting"] == "default"}
    names = sorted({one["session"] for one in lines})
    cells = {(one["rules"], one["session"]): one for one in lines}

    def shown(rules: str, name: str) -> str:
        one, other = cells.get((rules, name)), known.get((name, rules, "hybrid"))
        if one is None or other is None:
            return "not run"
        return f"{one['evaluated']:,} ({100 * (other['evaluated'] / one['evaluated'] - 1):+.2f} %)"

    least = [f"{next(one['least'] for one in lines if one['session'] == name):,}" for name in names]
    rows = [[rules, *(shown(rules, name) for name in names)] for rules in RULE_SETS]
    return table(["rule set", *names], [["at least", *least], *rows])


def finer(lines: Sequence[Line], scaled: Sequence[Line]) -> str:
    """Return rule sets: evaluated tokens at both scales, over the sessions that ran at both."""
    known = {(one["session"], one["rules"]): one for one in scaled
             if one["setting"] == "default" and one["kind"] == "hybrid"}  # fmt: skip
    rows = []
    for rules in dict.fromkeys(one["rules"] for one in lines):
        pairs = [(one, known[one["session"], rules]) for one in lines if one["rules"] == rules]
        fine, rough = (summed([pair[i] for pair in pairs]) for i in (0, 1))
        off = f"{100 * (rough['evaluated'] / fine['evaluated'] - 1):+.2f} %"
        shares = (share(one["evaluated"], one["prompt"]) for one in (fine, rough))
        rows.append([rules, f"{fine['sessions']}", *shares, off, over(fine)])
    return table(["rule set", "sessions", f"scale {lines[0]['scale']}", "scale 64", "off", "above the bound"], rows)


def agreements(lines: Sequence[Line]) -> str:
    """Return the sessions with sub-agents, scaled and unscaled."""
    rows = [
        [one["session"], one["profile"], f"{one['requests']}", f"{one['agents']}", f"{one['together']}",
         f"{one['unscaled']:,}", f"{100 * (one['scaled'] / one['unscaled'] - 1):+.2f} %",
         share(one["same"], one["requests"]) + " %"]
        for one in sorted(lines, key=lambda one: (one["profile"], one["session"]))
    ]  # fmt: skip
    head = ("session", "rule set", "requests", "sub-agents", "together", "evaluated", "scaled", "same rule")
    return table(head, rows)


def page(
    results: Results, whole: Sequence[Line], scaled: Sequence[Line], agree: Sequence[Line], fine: Sequence[Line] = (),
    together: Sequence[Line] = (), agents: Sequence[Line] = (), blocks: Sequence[Line] = (),
) -> str:
    """Return the page."""
    several, delegating = Shared(together), Shared(agents)
    whole_set = results.every("latest", "hybrid") or {"requests": 0, "prompt": 0, "sessions": 0}
    parts = [HEAD.format(sessions=whole_set["sessions"], requests=f"{whole_set['requests']:,}",
                         tokens=f"{whole_set['prompt'] / 1e6:,.1f}")]  # fmt: skip
    parts += [FINDINGS.format(**facts(results, several, delegating)), ALL, everything(results)]
    parts.append("## Evaluated tokens, per cent of the prompt tokens\n")
    for kind, model in MODELS.items():
        parts += [f"### {kind.capitalize()} ({model})\n", sessions_of(results, kind), evaluated(results, kind)]
    parts += [TOGETHER, several.part(), AGENTS, delegating.part()]
    parts += [*pool_parts(blocks), DISTANCES, distances(results)]
    parts += [BOUNDS, bounds(results), LOSSES, losses(results, "hybrid")]
    parts.append(MEMORY)
    for kind in ("hybrid", "window", "recurrent", "attention"):
        parts += [f"### {kind.capitalize()} ({MODELS[kind]})\n", memory(results, kind)]
    parts += ["## Wrong answers (default settings)\n", wrong(results)]
    if whole:
        parts += [UNSCALED, unscaled(whole, scaled)]
    if fine:
        parts += [FINER, finer(fine, scaled)]
    if agree:
        parts += ["## Scaled against unscaled, sessions with sub-agents (hybrid)\n", agreements(agree)]
    return "\n".join([*parts, METHOD])


def read_plain(path: Path | None) -> list[Line]:
    """Read lines of JSON; [] without a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path and path.exists() else []


def main(argv: Sequence[str]) -> None:
    """Write the page and its picture."""
    parser = argparse.ArgumentParser(prog="tests.workloads.page")
    parser.add_argument("lines", type=Path)
    parser.add_argument("--agree", type=Path)
    parser.add_argument("--agents", type=Path, default=Path("workloads/agents.jsonl"))
    parser.add_argument("--blocks", type=Path, default=Path("workloads/blocks.jsonl"))
    args = parser.parse_args(argv)
    read = list(read_lines(args.lines).values())
    every = [one for one in read if one["sessions"] == 1]
    rough = max(one["scale"] for one in every)
    at = {scale: [one for one in every if one["scale"] == scale] for scale in {one["scale"] for one in every}}
    between = [one for scale, lines in at.items() if 1 < scale < rough for one in lines]
    text = page(Results(at[rough]), at.get(1, []), at[rough], read_plain(args.agree), between,
                [one for one in read if one["sessions"] > 1], list(read_lines(args.agents).values()),
                list(read_lines(args.blocks).values()))
    PAGE.write_text(text, "utf-8")
    if SHOWN in text:
        PICTURE.write_text(loss_picture(text), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
