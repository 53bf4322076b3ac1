"""Grades the outcomes of all rules with the recordings of real servers. Run: make grades

A pair is an outcome and another answer to it. What was found last time is tried first, so that only pairs that no
recording refutes cost time. An interrupt keeps what was found; the next run goes on from there.
"""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentParser
from pathlib import Path

from cachesim.base import exits
from cachesim.base.console import complain, show
from cachesim.base.pool import KilledItem, finished
from cachesim.base.progress_bar import progress
from cachesim.base.untrusted_files import files_in, read_start
from cachesim.engines.registry import BUILTIN, ENGINES
from cachesim.judging.evidence import Grade, table_of
from tests.evidence import peer_runs, server_runs, sglang_servers, sglang_trees, table, vllm_start
from tests.evidence.search import Found, pairs, search
from tests.evidence.survey import Survey, survey
from tests.shared import ROOT, TRACES

OWN = [ROOT / "tests" / "data" / name for name in ("vllm_offload", "vllm_releases")]     # of released classes
HEAD = 4096                                             # bytes of a recording in which its engine is named
NAMED = re.compile(r'"engine": ?"([^"]*)"')
JOURNAL = ROOT / "build" / "grades.jsonl"


def main(argv: list[str] | None = None) -> int:
    """Grade all outcomes, write the tables and return the exit code."""
    parser = ArgumentParser(prog="make grades", description="Grade the outcomes of all rules.")
    parser.add_argument("traces", type=Path, nargs="?", default=TRACES,
                        help=f"folder with folders of recordings (default {TRACES})")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="worker processes (default 2)")
    parser.add_argument("--engine", choices=BUILTIN, help="grade the rules of this engine only")
    args = parser.parse_args(argv)
    files = [file for file in files_in(args.traces, ".json") if args.engine in (None, recorded_engine(file))]
    if not files:
        complain(f"nothing graded: no recordings in {args.traces}")
        return exits.NOTHING
    files += [file for folder in OWN for file in files_in(folder, ".json")
              if args.engine in (None, recorded_engine(file))]  # fmt: skip
    own = [args.engine] if args.engine else list(BUILTIN)
    surveys = [one for one in _all(survey, files, args.jobs, "reading") if isinstance(one, Survey)]
    found = _recorded(surveys, args.traces, args.jobs)
    for engine in server_runs.engines() & {*own}:
        found = _on_servers(found, engine)
    found += vllm_start.found()
    compared = _all(peer_runs.search, peer_runs.pairs(), args.jobs, "comparing") if peer_runs.ENGINE in own else []
    if sglang_trees.ENGINE in own:
        found = _supplemented(_supplemented(found, sglang_trees, args.jobs), sglang_servers, args.jobs)
    for engine in own:
        mine = [one for one in (*found, *compared) if one.engine == engine]
        met = {*peer_runs.met()} if engine == peer_runs.ENGINE else {*table.met(surveys, engine)}
        met |= {one.outcome for one in mine}
        table.write_table(engine, table.made(engine, met, mine, args.traces))
    JOURNAL.unlink(missing_ok=True)
    show(summary())
    return exits.HOLDS


def recorded_engine(file):
    """Return the engine of a recording, which its beginning names."""
    found = NAMED.search(read_start(file, HEAD).decode("utf-8", "replace"))
    return next((name for name, engine in BUILTIN.items() if found and engine.recorded.name == found[1]), "")


def _all(work, shares, jobs, doing):
    """Return the results in the order of the shares. Raise the exception of a failed share."""
    done = {}
    for one in progress(finished(work, shares, jobs), len(shares), doing):
        if isinstance(one.result, KilledItem):
            complain(f"{one.share}: {one.result.how}")
        else:
            done[one.number] = one.result
    return [done[number] for number in sorted(done)]


def _recorded(surveys, traces, jobs):
    """Return the verdict of the recordings about every pair. Each is stored as a line of the journal until all are
    done."""
    every = list(pairs(surveys, table.known(traces)))
    done = table.journal(JOURNAL, traces)
    todo = [pair for pair in every if table.key(pair) not in done]
    JOURNAL.parent.mkdir(exist_ok=True)
    with JOURNAL.open("a", encoding="utf-8") as out:
        for one in progress(finished(search, todo, jobs), len(todo), "grading"):
            if isinstance(one.result, Found):
                out.write(json.dumps(table.line(one.result, traces)) + "\n")
                out.flush()
    done = table.journal(JOURNAL, traces)
    return [done[table.key(pair)] for pair in every if table.key(pair) in done]


def _on_servers(found, engine):
    """Return the findings, supplemented by outputs of real servers for pairs that no recording refutes."""
    refuted = {one[:3] for one in found if one.file}
    pairs = [pair for pair in server_runs.met(engine)[0] if pair not in refuted]
    more = {pair: one for pair in pairs if (one := server_runs.search(pair))}
    return [*(one for one in found if one[:3] not in more), *more.values()]


def _supplemented(found, released, jobs):
    """Return the findings, supplemented by released classes of SGLang for pairs that no recording refutes."""
    refuted = {one[1:3] for one in found if one.engine == released.ENGINE and one.file}
    made = [one for one in _all(released.search, released.pairs(refuted), jobs, "comparing") if one.file]
    more = {one[:3] for one in made}
    return [*(one for one in found if one[:3] not in more), *made]


def summary() -> str:
    """Return the numbers of outcomes by engine and grade."""
    rows = []
    for engine in ENGINES:
        graded = ((stored := table_of(engine)) and stored.graded.values()) or ()
        counts = ", ".join(f"{sum(one.grade is grade for one in graded)} {grade}" for grade in Grade)
        rows.append(f"{engine}: {len(graded)} outcomes: {counts}")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
