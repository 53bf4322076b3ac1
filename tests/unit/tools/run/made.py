"""Constructed runs that were never simulated: their requests are given, so that a test says what each of them was."""

from __future__ import annotations

import re

from rich.console import Group

from cachesim.base.console import as_text
from cachesim.engines.base import Answer, Request
from cachesim.judging.compare_answer import RequestVerdict
from cachesim.judging.judged_run import Run
from cachesim.judging.judgement import Judgement
from cachesim.judging.recompute_ledger import Charge, RequestLedger
from cachesim.judging.verdict import CORRECT, Verdict
from cachesim.judging.verdict_words import VerdictWord
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.run.why_report import answer_report, reasons_report

HEAD = "llama_cpp@b10587"
BROKEN = Verdict(VerdictWord.WRONG, "bits")
UNDECIDED = Verdict(VerdictWord.UNDECIDED)


def judgement(
    answer=CORRECT, state=CORRECT, refused=False, charges=(), armed=(), n=10, cache_n=0, source="slot", **fields
):
    """A request of so many tokens, of which ``cache_n`` are from a ``source``; ``fields`` are those of its answer."""
    charged = tuple(Charge(*one) for one in charges)
    ledger = RequestLedger(9, 8, cache_n, charged)
    judged = RequestVerdict(answer, state, list(armed), refused)
    return Judgement(
        Request(tuple(range(n))), Answer(0, done=True, reused={source: cache_n}, **fields), judged, ledger, [4, 7], 2)


def run(*requests, line="A10/B10/C10/D10", profile=HEAD, told=(), **more):
    """A run with these requests, which its scenario lists."""
    made = Run(from_line("/".join(line.split("/")[: len(requests)])), profile, "provenance", requests=list(requests))
    made.told = list(told)
    made.log.marks += [0] * len(requests)            # nothing was logged in any of them
    for name, value in more.items():
        setattr(made, name, value)
    return made


def why_report(*runs, verbose=0):
    """The whole report of ``why``: the answers, then the reasons."""
    return Group(answer_report(runs), reasons_report(runs, runs, verbose))


FLAGS = re.compile("([AB] )?(flags|set): ")


def shown(report):
    """Return the stripped lines of a report, without the server's flags, which always follow the first line."""
    return [line.strip() for line in as_text(report).splitlines() if not FLAGS.match(line)]
