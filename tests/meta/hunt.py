"""Search for a planted fault with conversations of ``cachesim fuzz``. plant.py runs this script inside a copy of the
package.

    hunt.py note PROFILE N FILE               record the answers of the unmodified engine to N conversations
    hunt.py find PROFILE N FILE               first conversation that violates a property the unmodified engine keeps

A finding counts if the unmodified engine keeps the property in every conversation with this model ("clean"), never
fails by this rule ("new"), or does not fail in this conversation ("changed", the weakest).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import cachesim  # noqa: E402
from cachesim.base.errors import BadInput  # noqa: E402
from cachesim.judging.judged_run import run_judged  # noqa: E402
from cachesim.tools.search.campaign import SPREAD  # noqa: E402
from cachesim.tools.search.drawn_conversation import draw_conversation  # noqa: E402
from cachesim.tools.search.invariant_observer import observe_run  # noqa: E402
from cachesim.tools.search.properties import (  # noqa: E402
    LEDGER_PROPERTIES,
    PROPERTIES,
    monotone,
)

SEED = 24              # the campaign's
LONGEST = 6            # CPU seconds after which a conversation counts as endless
BILLED = 4             # every so many conversations the slow properties are checked, too


class Endless(Exception):
    """Timeout of a conversation."""


def _end(*_: object) -> None:
    raise Endless


def observe(profile: str, i: int, judges: dict) -> tuple[str, str, list[tuple[str, ...]]]:
    """Return (model, answers, groups of findings) of a conversation. A crash of the simulator counts as a finding."""
    case = draw_conversation(SEED * SPREAD + i, profile.partition("@")[0])
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
    said = ""
    try:
        scenario = case.scenario(profile)
        one = observe_run(scenario, profile, judges)
        said = str([(f.answer.cache_n, f.answer.prompt_n, f.answer.status, f.answer.died, f.answer.deciding,
                     f.answer.id_slot, tuple(f.answer.tokens), f.verdict.equal_cold, f.state.equal_cold, len(f.armed))
                    for f in one.steps])
        found = [] if one.unset else [finding for check in PROPERTIES.values() for finding in check(one)]
        if i % BILLED == 0 and not one.unset:
            run = run_judged(scenario, profile, "provenance")
            found += [finding for bill in LEDGER_PROPERTIES.values() for finding in bill(run)]
            found += monotone(scenario, profile)
        groups = [finding.group for finding in found]
    except BadInput:
        groups = []
    except Endless:
        groups = [("ends", "")]
    except Exception as error:      # any consequence of the fault
        groups = [("no crash", type(error).__name__)]
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return case.model, said, groups


def note(profile: str, n: int, file: Path) -> None:
    """Write the observations of n conversations to a file."""
    judges: dict = {}
    file.write_text(json.dumps([observe(profile, i, judges) for i in range(n)]))


def find(profile: str, n: int, file: Path) -> dict:
    """Return the first conversation that shows the fault."""
    before = json.loads(file.read_text())[:n]
    broken = {(model, name) for model, _, groups in before for name, *_ in groups}
    known = {tuple(group) for _, _, groups in before for group in groups}
    begun, judges, changed, differs = time.perf_counter(), {}, None, None
    for i in range(n):
        model, said, groups = observe(profile, i, judges)
        if differs is None and said != before[i][1]:
            differs = i + 1
        for group in groups:
            if [*group] in before[i][2]:
                continue
            how = "clean" if (model, group[0]) not in broken else "new" if group not in known else "changed"
            shown = {"how": how, "property": group[0], "rule": " ".join(filter(None, group[1:])),
                     "examples": i + 1, "model": model, "seconds": time.perf_counter() - begun, "differs": differs}
            if how != "changed":
                return shown
            if group[0] not in {name for name, *_ in before[i][2]}:
                changed = changed or shown
    return changed or {"how": "", "examples": n, "seconds": time.perf_counter() - begun, "differs": differs}


def main(what: str, *args: str) -> None:
    """Run a subcommand and print its result as JSON."""
    signal.signal(signal.SIGVTALRM, _end)
    said = {"package": cachesim.__file__}
    profile, n, file = args
    said.update({"note": note, "find": find}[what](profile, int(n), Path(file)) or {})
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
