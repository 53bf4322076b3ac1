"""Does ``why`` speak in words about mlx-lm's server, whatever its rules say in the corpus?"""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cachesim.reports.sentences import sentence
from cachesim.reports.why_report import why_data, why_report
from tests.scenarios.test_corpus import SCENARIOS, played

MINE = [name for name, scenario in SCENARIOS.items() if scenario.engine == "mlx_lm"]
@pytest.mark.parametrize("name", MINE)
def test_why_fits_into_80_columns_and_shows_no_tokens(name):
    for profile in SCENARIOS[name].profiles:
        run = played(name, profile)
        for number in range(len(run.requests)):
            data = why_data(run, number)
            text = [step["says"] for step in data["decisions"]]
            assert not [said for said in text if ("(" in said and "tokens=" in said) or len(said) > 120]
            out = io.StringIO()
            Console(file=out, width=80).print(why_report(data))
            assert max(map(len, out.getvalue().splitlines())) <= 80
            assert len(out.getvalue().splitlines()) <= 40


@pytest.mark.parametrize(("rule", "value", "because", "says"), [
    ("ML-LRU-SHORTER", 10, {"query": 27, "common": 12, "shorter": 10, "longer": 14},
     "10 of 27 served: 12 shared, a key of 10 is a prefix, a longer key of 14"),
    ("ML-LRU-SHORTER", 10, {}, ""),
    ("ML-LRU-PREFIX.all", [], {}, ""),
    ("ML-LRU-PREFIX.all", [21], {}, "entries of 21 go: the new one can be cut back to them"),
    ("ML-PC-TAILS.PLAIN", None, {"pc": 10, "lengths": [7, 10, 8]}, "tails of 7, 10, 8 tokens make no array"),
    ("ML-PC-TAILS.ZEROS", [(0, 0, 5), (5, 6, 7)], {"pc": 3, "lengths": [1, 3]},
     "tails of 1, 3 tokens, and 2 zeros before them"),
    ("ML-CANCEL.STORE", True, {}, "what was answered is stored"),
    ("ML-BATCHABLE", True, {"drafts": False, "seed": False}, ""),
    ("ML-BATCHABLE", False, {"drafts": False, "seed": True}, "served alone, with a seed"),
    ("ML-BATCHABLE", False, {"drafts": True, "seed": False}, "served alone, beside a draft model"),
    ("ML-NEW", 3, {"n": 1}, "3  (n 1)"),
])
def test_sentences(rule, value, because, says):
    assert sentence(rule, value, because) == says
