"""Reports of `import` on logs of slow prompts and on excerpts of them state nothing false, and what the lines show."""

from __future__ import annotations

from pathlib import Path

import pytest

from cachesim.tools.server_logs.import_log import import_log
from tests.logs.slow_logs.__main__ import tally_of
from tests.logs.slow_logs.table import Tally, report
from tests.shared import ROOT, SHARED, absent

SAMPLE = ROOT / "tests" / "logs" / "slow_logs" / "sample"
SLOW = SHARED / "logs" / "slow"
CUTS = 4
SHOWN = 20


def tally_of_folder(folder: Path, cuts: int) -> Tally:
    """Return the counts of all logs of a folder and of their excerpts."""
    tally = Tally()
    for file in sorted(folder.glob("*.json")):
        tally.merge(tally_of(file, cuts))
    return tally


@pytest.mark.parametrize("file", sorted(SAMPLE.glob("*.json")), ids=lambda file: file.stem)
@pytest.mark.part(4)
def test_a_report_on_a_log_or_an_excerpt_states_nothing_false(file):
    tally = tally_of(file, CUTS)
    assert (tally.examples, tally.inner) == ([], [])


@pytest.mark.long
@pytest.mark.skipif(not SLOW.exists(), reason=absent(SLOW))
def test_the_shared_logs_meet_all_limits():
    tally = tally_of_folder(SLOW, 0)
    assert tally.failures() == [], report(tally, SHOWN)


@pytest.mark.skipif(not SLOW.exists(), reason=absent(SLOW))
def test_two_prompts_at_once_share_the_batches_of_the_real_server():
    data, _ = import_log(SLOW / "qwen35-parallel-2slots-lv4.log")
    assert (data["agree"], data["differ"], data["contradicted"], data["complete"]) == (6, 0, [], True)


@pytest.mark.long
@pytest.mark.skipif(not SLOW.exists(), reason=absent(SLOW))
def test_excerpts_of_the_shared_logs_meet_all_limits():
    tally = tally_of_folder(SLOW, 1)
    assert (tally.examples, tally.inner, tally.failures()) == ([], [], []), report(tally, SHOWN)
