"""Do inputs that were once handled badly end as they should?"""

from __future__ import annotations

import pytest

from tests.hostile import judged
from tests.hostile.child import prepare, run
from tests.hostile.fixed import cases, made


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in cases()])
def test_ends_as_it_should(case):
    prepare()
    ended = run(made(case))
    assert judged.findings(ended) == []
    assert (ended.code, case.get("says", "") in ended.stderr) == (case["code"], True), ended.stderr
