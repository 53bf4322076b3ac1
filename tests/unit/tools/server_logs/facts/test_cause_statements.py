"""Causes that a log proves: numbers, lines and sentences, and warnings that are quoted."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.log_grammar import Line, LogGrammar, ParsedLine
from cachesim.engines.shared.log_signatures import Signature
from cachesim.tools.server_logs.facts.cause_statements import cause_statements, quoted_warnings
from cachesim.tools.server_logs.facts.proven_range import ProvenRange
from cachesim.tools.server_logs.facts.request_numbers import DerivedNumbers
from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.lines.tied_requests import TiedRequest


def line(number, kind, text="", slot=0, **numbers):
    return ReadLine(number, ParsedLine(Line(kind, kind), slot, 7, numbers), text or kind)


def signature(lost, says=("lost {lcp} of {n}", "lost some"), key="erased", kinds=("erase",), is_quoted=False):
    """Return a signature that is proven with these lost tokens, None = not proven."""
    return Signature(key, kinds, (), says, proof=lambda found: lost, is_quoted=is_quoted)


def derived(*lines, **ranges):
    numbers = {name: ProvenRange(low, high, frozenset({90 + number}))
               for number, (name, (low, high)) in enumerate(ranges.items())}  # fmt: skip
    return DerivedNumbers(TiedRequest(0, 7, [line(1, "launch"), *lines]), numbers)


def causes(request, *signatures):
    return [(said.lines, dict(said.numbers), said.says)
            for said in cause_statements(request, LogGrammar(signatures=signatures))]  # fmt: skip


ERASED = line(5, "erase", n=1234)
LCP = {"lcp": (1000, 1000)}


@pytest.mark.parametrize(("lost", "lcp", "numbers", "says"), [
    ((0, 0), LCP, {"cause": "erased"}, "lost 1,000 of 1,234"),
    ((30, 30), LCP, {"cause": "erased", "lost": 30}, "lost 1,000 of 1,234 (30 lost)"),
    ((30, 4000), LCP, {"cause": "erased", "lost": [30, 4000]}, "lost 1,000 of 1,234 (30 to 4,000 lost)"),
    ((0, None), LCP, {"cause": "erased", "lost": [0, None]}, "lost 1,000 of 1,234"),
    ((30, 30), {}, {"cause": "erased", "lost": 30}, "lost some (30 lost)"),
])  # fmt: skip
def test_a_cause_has_its_numbers_and_sentence(lost, lcp, numbers, says):
    proof = (5, 90) if lcp else (5,)
    assert causes(derived(ERASED, **lcp), signature(lost)) == [(proof, numbers, says)]


def test_a_cause_is_stated_once_and_only_if_it_is_proven():
    one = derived(ERASED, line(6, "erase", n=7), **LCP)
    assert [lines for lines, *_ in causes(one, signature((1, 1)), signature((2, 2)), signature((3, 3), key="b"))] == [
        (5, 90), (5, 90)]
    assert causes(one, signature(None)) == causes(one, signature((1, 1), kinds=("evict",))) == []
    assert causes(one, signature((1, 1))._replace(proof=None)) == []
    assert causes(one._replace(clashes=(("lcp", None, None),)), signature((1, 1))) == []


CHECK = {"pos_min": 5, "pos_max": 9, "thold": 3}


@pytest.mark.parametrize(("kinds", "used"), [(("erase",), (3, 4, 5, 90)), ((), (90, 91, 92, 93))])
def test_a_cause_is_proven_by_its_line_the_checks_and_the_lengths(kinds, used):
    one = derived(line(3, "ckpt_check", **CHECK), line(4, "ckpt_check", **CHECK), ERASED,
                  lcp=(1, 1), n_tokens=(2, 2), held=(3, 3), lost=(4, 4), end=(5, 5))  # fmt: skip
    assert [lines for lines, *_ in causes(one, signature((1, 1), kinds=kinds))] == [used]


@pytest.mark.parametrize(("printed", "checks", "says", "shown"), [
    ({"n": 1234}, (), "{n}", "1,234"), ({"pos_max": 9}, (), "{restored}", "10"),
    ({"pos_max": 9, "n_past": 7}, (), "{restored}", "7"), ({}, (), "{lcp} {held}", "1,000 at least 1,000"),
    ({}, ((5000, 9, 3), (4000, 9, 4000)), "{nearest} {thold}", "4,000 4,000"), ({}, ((5, 9, 1),), "{thold}", "1"),
    ({}, ((5, 9, 3), (2, 9, 3)), "{nearest}", None), ({}, ((5, 9, 0),), "{nearest}", None),
    ({"pos_end": 1}, ((5, 9, 3),), "{nearest}", None), ({}, (), "{other}", None),
])  # fmt: skip
def test_numbers_that_a_sentence_may_show(printed, checks, says, shown):
    """Without a sentence whose numbers are all known the key of the cause is its sentence."""
    lines = [line(3, "ckpt_check", pos_min=low, pos_max=high, thold=thold) for low, high, thold in checks]
    one = derived(*lines, line(5, "erase", **printed), lcp=(1000, 1000), held=(1000, None))
    assert [said for *_, said in causes(one, signature((0, 0), says=(says,)))] == [shown or "erased"]


def test_warnings_are_quoted_once_for_each_slot():
    lines = [line(1, "warn", "lost 5"), line(2, "warn", "lost 6"), line(3, "warn", "lost 7", slot=1),
             line(4, "other", "lost 8"), line(5, "warn", "gone 9"), line(6, "warn", "gone for good")]  # fmt: skip
    found = quoted_warnings(lines, LogGrammar(signatures=[
        signature(None, kinds=("warn",), is_quoted=True), signature(None, kinds=("other",))]), {5})  # fmt: skip
    assert [(said.lines, said.slot, said.says.split('"')[1]) for said in found] == [
        ((1,), 0, "lost 5"), ((3,), 1, "lost 7"), ((6,), 0, "gone for good")]


@pytest.mark.parametrize("missing", ["pos_min", "pos_max", "thold"])
def test_a_check_is_evidence_if_all_of_its_numbers_are_known(missing):
    seen = []
    one = signature(None)._replace(proof=lambda found: seen.append(found.checks))
    partial = {name: number for name, number in CHECK.items() if name != missing}
    assert causes(derived(line(3, "ckpt_check", **CHECK), line(4, "ckpt_check", **partial), ERASED), one) == []
    assert seen == [((5, 9, 3),)]


def test_a_cause_that_is_not_proven_hides_no_other():
    first, second = signature(None, key="first"), signature((0, 0), ("gone",), "second")
    assert causes(derived(ERASED), first, second) == [((5,), {"cause": "second"}, "gone")]
    assert causes(derived(ERASED), signature((0, 0), kinds=("other",)), second) == [
        ((5,), {"cause": "second"}, "gone")]  # fmt: skip
