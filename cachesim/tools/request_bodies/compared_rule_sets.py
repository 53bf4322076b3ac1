"""Imported request bodies under several rule sets, which may be of several engines."""

from __future__ import annotations

from typing import Any, Sequence

from cachesim.engines.registry import profiles as known_profiles
from cachesim.scenarios.engine_cases import settings_of, under_engines
from cachesim.scenarios.load import load_text
from cachesim.tools.run.arguments import with_settings
from cachesim.tools.run.engines_table import reused_tokens
from cachesim.tools.run.run_command import run_all
from cachesim.tools.run.run_jobs import RunJob

Data = dict[str, Any]


def compared_runs(text: str, profiles: Sequence[str], settings: Sequence[str]) -> list[Data]:
    """Run the scenario file ``text`` of imported bodies under each rule set, without arithmetic, and return the data of
    the runs. An engine gets the options of ``settings`` that it has. The errors of rule sets that cannot run it are
    printed. Raise BadInput for an unknown rule set, and KeyboardInterrupt with the first interrupt."""
    known = known_profiles().keys()
    cases = under_engines(load_text(text, known), profiles, known)
    engines = [case.engine for case in cases]
    jobs = []
    for case in cases:
        own = with_settings(case, settings_of(case.engine, settings, engines))
        jobs += [RunJob(own, name, "provenance", None) for name in profiles if name.partition("@")[0] == case.engine]
    runs, _, interrupt = run_all(jobs, 1)
    if interrupt is not None:
        raise interrupt
    return [data for _, data in runs]


def compared_data(runs: Sequence[Data]) -> list[Data]:
    """Return the reused prompt tokens of each run and of its requests, for JSON."""
    return [
        {
            "profile": run["profile"],
            "reused": sum(map(reused_tokens, run["requests"])),
            "requests": [reused_tokens(request) for request in run["requests"]],
        }
        for run in runs
    ]
