"""Tests of ``conform``: it finds each planted fault in its smallest form, and reports nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

import cachesim
from cachesim.base.errors import BadInput
from cachesim.tools.conformance import Nonconforming, conform, near
from cachesim.tools.conformance.report_builder import NEVER, UNKNOWN, UNREPORTED
from tests.conformance import caches
from tests.conformance.naive import FixedCache, NaiveCache

pytestmark = pytest.mark.long

FOUND = [
    (NaiveCache, {"repeat": "A2/A", "prefix": "A1>a2/A.a[:1]"}),
    (caches.Hasty, {"cancel": "A5{cancel_after=0}/A.B1", "stored": "A5{cancel_after=0}/B1"}),
    (caches.Padded, {"burst": "A1/B2{together}"}),
    (caches.Deaf, {"uncached": "A1/A.B1!"}),
    (caches.Miscounts, {"accounting": "A1/A.B1", "unseen": "A1/A.B1"}),
    (caches.Boasts, {"unseen": "A2", "uncached": "A2!"}),
    (caches.Labours, {"accounting": "A1/A.B1", "work": "A1/A.B1"}),
    (caches.Embellishes, {"stored": "A1"}),
    (caches.Overflows, {"limits": "A1/B1/C1/D1"}),
    (caches.Falls, {"answers": "A1/A"}),
]
"""Each cache, with the smallest history for each property that it violates, derived by hand."""

START = {caches.Hasty: ["S9.A3{cancel_after=0}/S.A.B7"]}
"""Faults after a disconnect need a long prompt and a rarer draw."""


@pytest.mark.parametrize(("cache", "lines"), FOUND, ids=lambda value: getattr(value, "__name__", ""))
def test_a_fault_is_found_in_its_smallest_form(cache, lines):
    report = conform(cache, histories=START.get(cache, ()), max_examples=80, check=False)
    assert {one.name: one.finding.line for one in report.results if one.state == "failed"} == lines
    assert all(one.state in ("failed", "ok", "unsupported", "missed") for one in report.results)


def test_a_finding_says_what_was_expected_and_what_came():
    found = conform(caches.Miscounts, max_examples=40, check=False)["accounting"].finding
    assert (found.request, found.expected, found.got) == (1, "2 in all", "2 cached + 1 evaluated")
    assert [len(prompt) for prompt in found.prompts] == [1, 2]
    assert found.prompts[1][:1] == found.prompts[0]


@pytest.mark.parametrize("layers", ["GGGA", "AA", "W4 A", "CC", "H"])
def test_the_fixed_cache_holds_for_every_kind_of_layer(layers):
    report = conform(lambda: FixedCache(layers), max_examples=40)
    states = {one.name: one.state for one in report.results if one.state != "ok"}
    regenerate = {} if layers in ("AA", "W4 A") else {"regenerate": "missed"}
    assert states == {**dict.fromkeys(("cancel", "burst", "identical"), "unsupported"), **regenerate}


def test_attention_alone_hides_the_fault():
    assert conform(lambda: NaiveCache("AA"), max_examples=40).conforms


def test_everything_is_supported_and_holds():
    report = conform(lambda: caches.Complete("AA"), max_examples=100, strict=True)
    assert {one.state for one in report.results} == {"ok"}


def test_what_is_missing_is_reported_with_its_reason():
    report = conform(caches.Least, max_examples=30, check=False)
    missing = {one.name: one.why for one in report.results if one.state == "unsupported"}
    assert missing == {
        "uncached": "complete() has no parameter cache",
        **dict.fromkeys(("extension", "return", "regenerate"), UNREPORTED),
        "cancel": "complete() has no parameter cancel_after",
        "burst": "no method burst()",
        "identical": "no method burst()",
        "accounting": "cached and evaluated are not both reported",
        "unseen": "cached is not reported",
        "work": "evaluated is not reported",
        "stored": "stored is not reported, or is always empty",
        "limits": "no method limits()",
    }
    assert report.conforms and report.state("append") == "ok"
    assert report.notes == (UNKNOWN,)


def test_a_cache_that_reuses_nothing_has_shown_nothing():
    report = conform(caches.Never, max_examples=30, check=False)
    assert (report.state("append"), report["append"].why) == ("undecided", NEVER)
    assert not report.conforms and report.state("accounting") == "ok"


def test_where_cold_runs_differ_nothing_is_compared():
    report = conform(caches.Wavers, max_examples=20, check=False)
    assert (report.state("steady"), report["steady"].finding.line) == ("failed", "A1")
    assert {report.state(name) for name in ("new", "append", "branch", "uncached")} == {"undecided"}
    assert report["new"].why == "two cold runs of a request differ"


def test_where_cold_runs_differ_by_numbers_a_tolerance_is_proposed():
    class Noisy(FixedCache):
        def complete(self, prompt, n_predict):
            caches.Wavers.said += 1
            reply = super().complete(prompt, n_predict)
            noise = 0.0001 * (caches.Wavers.said % 2)
            return {**reply, "tokens": None, "fingerprint": [float(sum(prompt)), 1.0 + noise]}

    report = conform(Noisy, max_examples=20, check=False)
    assert report["append"].why == (
        "two cold runs of a request differ by up to 0.0001: same=near(0.001) allows ten times as much")
    assert conform(Noisy, max_examples=20, same=near(0.001)).state("steady") == "ok"


def test_instances_that_share_their_cache_are_not_cold():
    caches.Shared.everything.clear()
    found = conform(caches.Shared, max_examples=30, check=False)["unseen"].finding
    assert found.expected in ("0 cached by an empty cache", "at most 0 cached")


def test_it_raises_an_assertion_that_shows_the_report():
    with pytest.raises(AssertionError, match=r"(?s)^A1>a2/A.a\[:1\]: expected.*prefix +FAILED.*2 failed") as error:
        cachesim.conform(NaiveCache, max_examples=80)
    assert isinstance(error.value, Nonconforming) and not error.value.report.conforms


def test_the_same_arguments_give_the_same_report():
    one, two = (conform(NaiveCache, max_examples=20, check=False).data() for _ in range(2))
    assert one == two


def test_a_line_is_played_first_and_shrunk():
    report = conform(NaiveCache, histories=["S9.A6>r3/S.B7/S.A/S.A.r[:2]"], max_examples=1, check=False)
    assert report["prefix"].finding.line == "A1>a2/A.a[:1]"


def test_the_corpus_alone_finds_it_too():
    report = conform(NaiveCache, corpus="any", max_examples=1, check=False)
    assert report["repeat"].finding.line.count("/") == 1
    assert report["repeat"].finding.prompts[0] == report["repeat"].finding.prompts[1]
    assert report.histories > 80


def test_what_is_accepted_does_not_raise_until_it_holds():
    reasons = {"repeat": "known since May", "prefix": "the same"}
    report = conform(NaiveCache, max_examples=80, accepted=reasons)
    assert (report.state("repeat"), report["repeat"].why) == ("accepted", "known since May")
    with pytest.raises(Nonconforming, match=r"accepted as failing .known since May., but it is ok"):
        conform(FixedCache, max_examples=40, accepted=reasons)


@pytest.mark.parametrize("how", [
    {"cold": "request"}, {"reset": True}, {"cold": "request", "reset": True}, {"cold": lambda: FixedCache(size=0)},
], ids=["request", "reset", "request and reset", "another cache"])  # fmt: skip
def test_cold_replies_may_come_from_elsewhere(how):
    assert conform(NaiveCache, max_examples=40, check=False, **how)["repeat"].finding.line == "A2/A"


def test_fingerprints_are_compared_as_the_caller_says():
    def close(a, b):
        return True

    class Rounds(FixedCache):
        def complete(self, prompt, n_predict):
            reply = super().complete(prompt, n_predict)
            return {**reply, "fingerprint": 1.0 + 1e-9 * reply["cached"]}

    assert conform(Rounds, max_examples=20, max_requests=2, check=False).state("append") == "failed"
    assert conform(Rounds, max_examples=30, same=lambda a, b: abs(a - b) < 1e-6).conforms


def test_tokens_stay_in_the_vocabulary_and_prompts_below_their_limit():
    asked = []

    class Listens(FixedCache):
        def complete(self, prompt, n_predict):
            asked.append(prompt)
            return super().complete(prompt, n_predict)

    vocabulary = range(5, 105)
    conform(lambda: Listens(), tokens=vocabulary, max_prompt=9, near=[16], max_examples=40)
    assert max(map(len, asked)) == 9
    first_words = {token for prompt in asked for token in prompt if token < 1_000}
    assert first_words <= set(vocabulary)


@pytest.mark.parametrize(("reply", "text"), [
    ({"tokens": [1], "cachd": 0}, "unknown field 'cachd' in a reply (did you mean 'cached'?)"),
    ({"cached": 0}, "expected tokens or a fingerprint in the reply, found neither: nothing can be compared"),
    ({"tokens": [-1]}, "a token of tokens: expected an integer of at least 0, found -1"),
    ({"tokens": "12"}, "tokens: expected a list of tokens, found '12'"),
    ({"tokens": [1], "cached": True}, "cached: expected an integer of at least 0, found True"),
    ({"tokens": [1], "cached": 1.5}, "cached: expected an integer of at least 0, found 1.5"),
    ({"tokens": [1], "stored": [[1, 2]]}, "stored: expected a list of mappings with tokens and length"),
    ([1], "expected a mapping as the reply, found list"),
])  # fmt: skip
def test_a_reply_of_another_form_is_a_finding(reply, text):
    class Odd:
        def complete(self, prompt, n_predict):
            return reply

    found = conform(Odd, max_examples=2, check=False)["answers"].finding
    assert (found.line, found.got) == ("A1", f"cold: {text}")


@pytest.mark.parametrize(("arguments", "text"), [
    ({"accepted": {"repeet": "x"}}, "did you mean 'repeat'"),
    ({"accepted": {"repeat": " "}}, "the reason for repeat is missing"),
    ({"cold": "warm"}, r'cold: expected "fresh" \(new instance\), "request"'),
    ({"corpus": "all"}, 'corpus: expected "any" or ""'),
    ({"tokens": range(10)}, "at least 64"),
    ({"only": 5}, "only: expected a list"), ({"only": [5]}, "only: expected a list"),
    ({"near": ["x"]}, "near: expected a list of sizes"),
    ({"histories": "A1"}, "histories: expected a list of lines"), ({"seconds": "x"}, "seconds: expected more"),
    ({"timeout": None}, "timeout: expected more"), ({"same": 5}, r"same: int\(\) of two fingerprints failed"),
    ({"sampling": "hot"}, "sampling: expected a mapping"),
    ({"max_requests": 0}, "max_requests from 1 to 12"), ({"max_requests": 13}, "max_requests from 1 to 12"),
    ({"max_prompt": 1}, "max_prompt from 2"), ({"max_examples": 0}, "max_examples from 1"),
    ({"histories": ["A1>0"]}, "at least one generated token"),
    ({"histories": ["A1/B"]}, "word 'B' has no length"),
])  # fmt: skip
def test_arguments_that_cannot_be_used_are_refused(arguments, text):
    with pytest.raises(BadInput, match=text):
        conform(FixedCache, **arguments)


def test_the_least_that_can_be_asked_for():
    report = conform(FixedCache, max_examples=1, max_requests=1, max_prompt=2, tokens=range(64), check=False)
    assert (report.histories, report.state("answers")) == (1, "ok")
    assert conform(FixedCache, only=["drawn"], max_examples=1, max_requests=12, check=False).histories == 1


def test_abilities_that_are_needed_must_be_there():
    with pytest.raises(BadInput, match=r"complete.. has no parameter cache"):
        conform(caches.Least, cold="request")
    with pytest.raises(BadInput, match="no method reset"):
        conform(caches.Least, reset=True)
    with pytest.raises(BadInput, match="a callable or the words of a command line"):
        conform("server --lines")


def test_the_package_stays_light():
    code = "import sys, cachesim; print(sorted({'numpy', 'hypothesis', 'rich'} & sys.modules.keys()), cachesim.conform)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[] <function conform")
    with pytest.raises(AttributeError, match="no attribute 'conforms'"):
        _ = cachesim.conforms
