"""Table of planted faults, printed at the end of `make meta`."""

from __future__ import annotations

from statistics import median

import pytest

from tests.meta.planting import printed

TABLE = pytest.StashKey[dict]()


@pytest.fixture(scope="session")
def table(request):
    """Return the results by fault name: (fault, [Noticed, ..])."""
    return request.config.stash.setdefault(TABLE, {})


def pytest_terminal_summary(terminalreporter, config):
    printed(terminalreporter, config.stash.get(TABLE, {}), lines, summary)


def lines(rows):
    """Yield a line for each fault."""
    yield f"{'engine':<10}{'fault':<74}{'found by':<22}{'rule or test':<48}{'examples':>9}{'seconds':>9}"
    for fault, found in rows.values():
        last = found[-1] if found else None
        detected = last is not None and last.by
        by, rule = (f"{last.by} ({last.how})", last.rule) if detected else ("NOT FOUND", "")
        sought = sum(each.examples for each in found)
        seconds = sum(each.seconds for each in found)
        yield f"{fault.engine:<10} {fault.name[:72]:<73}{by:<22} {rule[:46]:<47}{sought:>9}{seconds:>9.1f}"


def summary(rows):
    """Yield counts by engine, and the number of examples needed."""
    yield "how: the property otherwise holds / the rule is new / the verdict changed"
    for engine in dict.fromkeys(fault.engine for fault, _ in rows.values()):
        mine = [(fault, found) for fault, found in rows.values() if fault.engine == engine]
        fuzz = [found for _, found in mine if found and found[-1].examples and found[-1].by]
        tests = [found for _, found in mine if found and not found[-1].examples]
        yield (f"{engine}: {len(mine)} faults; "
               f"{len(fuzz)} found by fuzzing, {len(tests)} by tests, {len(mine) - len(fuzz) - len(tests)} not found")
    took = sorted(sum(one.examples for one in found) for _, found in rows.values()
                  if found and found[-1].examples and found[-1].by)
    if took:
        yield f"examples until found: median {median(took):.0f}, worst {took[-1]}"
