"""Counts of mutants by kind and exit code, and their findings."""

from __future__ import annotations

from collections import Counter

from tests.hostile import judged
from tests.hostile.kinds import KINDS, mutant, wheel
from tests.hostile.warm_child import run_all

SEED = 10**8                 # mutants per seed
READ, ACCEPTED = 30, 10      # minimum percent of mutants that are parsed, and that end with a result


def play(seed, first, last):
    """Run the mutants ``first`` to ``last`` - 1 of a seed, a kind at a time. Return the counts as plain data."""
    kinds = wheel()
    tally = {"kinds": {}, "findings": [], "shared": []}
    numbers = range(seed * SEED + first, seed * SEED + last)
    for name in dict.fromkeys(kinds):
        cases = [mutant(name, number) for number in numbers if kinds[number % len(kinds)] == name]
        kind = KINDS[name]
        for case, (ended, shared) in zip(cases, run_all(cases, kind.parser, kind.together), strict=True):
            enter(tally, case, ended)
            tally["shared"] += [[case.name, what] for what in shared]
    return tally


def _row():
    """Return a row of zeros: mutants, total and maximum CPU seconds, maximum MiB, exit codes."""
    return {"n": 0, "read": 0, "accepted": 0, "cpu": 0.0, "most": 0.0, "mib": 0.0, "codes": {}}


def enter(tally, case, ended):
    """Count a mutant."""
    row = tally["kinds"].setdefault(case.kind, _row())
    row["n"] += 1
    row["read"] += ended.parsed
    row["accepted"] += judged.accepted(ended)
    row["cpu"] += ended.cpu
    row["most"], row["mib"] = max(row["most"], ended.cpu), max(row["mib"], ended.mib)
    row["codes"][str(ended.code)] = row["codes"].get(str(ended.code), 0) + 1
    tally["findings"] += [[case.name, what] for what in judged.findings(ended)]


def added(tallies):
    """Return the sum of tallies."""
    total = {"kinds": {}, "findings": [], "shared": []}
    for tally in tallies:
        total["findings"] += tally["findings"]
        total["shared"] += tally["shared"]
        for name, row in tally["kinds"].items():
            into = total["kinds"].setdefault(name, _row())
            for key in ("n", "read", "accepted", "cpu"):
                into[key] += row[key]
            for key in ("most", "mib"):
                into[key] = max(into[key], row[key])
            into["codes"] = dict(Counter(into["codes"]) + Counter(row["codes"]))
    return total


def whole(tally):
    """Return the row of all kinds together."""
    rows = [{"kinds": {"all": row}, "findings": [], "shared": []} for row in tally["kinds"].values()]
    return added(rows)["kinds"].get("all", _row())


def good(tally):
    """True if there are no findings, and enough mutants were parsed and accepted."""
    row = whole(tally)
    enough = 100 * row["read"] >= READ * row["n"] and 100 * row["accepted"] >= ACCEPTED * row["n"]
    return enough and not tally["findings"]


CODES = ("0", "1", "2", "3", "5")
HEAD = ("kind", "mutants", "read", "accepted", *(f"exit {code}" for code in CODES), "other", "CPU s", "most", "MiB")


def table(tally):
    """Return the counts as lines of text."""
    rows = [HEAD]
    for name, row in [*sorted(tally["kinds"].items()), ("all", whole(tally))]:
        codes = [row["codes"].get(code, 0) for code in CODES]
        share = [f"{100 * row[key] / max(row['n'], 1):.0f} %" for key in ("read", "accepted")]
        rows.append((name, f"{row['n']:,}", *share, *(f"{n:,}" for n in (*codes, row["n"] - sum(codes))),
                     f"{row['cpu']:.0f}", f"{row['most']:.1f}", f"{row['mib']:.0f}"))  # fmt: skip
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    return [" ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
