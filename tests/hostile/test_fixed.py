"""Do inputs that were once handled badly end as they should?"""

from __future__ import annotations

import pytest

from tests.hostile import judged
from tests.hostile.child import CPU, prepare, run
from tests.hostile.fixed import cases, made
from tests.hostile.mutant import Mutant

pytestmark = pytest.mark.long

SLOW = 3        # a machine that runs tests may be so much slower: what has no bound takes minutes


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in cases()])
def test_ends_as_it_should(case):
    prepare()
    ended = run(made(case), cpu=SLOW * CPU)
    assert judged.findings(ended, SLOW * case.get("cpu", CPU)) == []
    assert (ended.code, case.get("says", "") in ended.stderr) == (case["code"], True), ended.stderr


def test_a_search_that_is_asked_for_much_holds_little():
    prepare()
    little = run(Mutant("fixed", 0, ("fuzz", "--examples", "2")))                    # what was there before counts too
    ended = run(Mutant("fixed", 0, ("fuzz", "--examples", "999999999")), cpu=1)
    assert judged.findings(ended, cpu=1) == ["time: more than 1 CPU seconds"]        # M3: it works, and that is all
    assert ended.mib < little.mib + 80
