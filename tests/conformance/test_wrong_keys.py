"""Tests of ``conform`` with keys: each wrong key is found in its smallest form, and its repaired twin has none."""

from __future__ import annotations

import re
from functools import cache, partial
from pathlib import Path

import pytest

import cachesim
from cachesim.base.errors import BadInput
from cachesim.tools.conformance import Nonconforming, conform
from cachesim.tools.conformance.properties import VERSUS_COLD
from cachesim.tools.conformance.protocol import CacheRequest, RequestKey
from tests.conformance.naive import FixedCache
from tests.conformance.wrong_keys import KINDS, Blocks, main, nothing, whole


@cache
def report_of(kind):
    """Return the report on the cache with a wrong key of this kind."""
    return conform(KINDS[kind].make, keys=KINDS[kind].keys, max_examples=20, check=False)


@pytest.mark.part(4)
@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_key_is_found_in_its_smallest_form(kind):
    one, report = KINDS[kind], report_of(kind)
    found = {result.name: result.finding.line for result in report.results if result.state == "failed"}
    assert one.smallest.items() <= found.items() and found.keys() <= {*VERSUS_COLD, "unseen"}
    assert conform(partial(one.make, True), keys=one.keys, max_examples=10).conforms
    assert conform(one.make, max_examples=10).conforms           # without keys there is nothing to find


def test_a_finding_lists_the_keys_of_its_requests():
    adapters, images = (report_of(kind)["key"].finding for kind in ("adapter", "image"))
    assert "keys of the requests: 'adapter 0', 'adapter 1'" in adapters.notes
    assert "keys of the requests: 'image 1' from token 1 on, 'image 2' from token 1 on" in images.notes


def test_tokens_before_the_key_may_be_reused_under_another():
    keys = [("image 1", 8), ("image 2", 8)]
    shared = conform(partial(Blocks, whole), keys=keys, histories=["A12/A"], max_examples=10)
    assert shared["unseen"].state == "ok"
    report = conform(partial(Blocks, nothing), keys=keys, histories=["A12/A"], max_examples=4, check=False)
    assert (report["unseen"].finding.expected, report["unseen"].finding.got) == ("at most 8 cached", "9 cached")


def test_floors_of_reuse_are_run_under_one_key():
    class Bypass(Blocks):
        """Caches nothing under a key."""

        def complete(self, prompt, n_predict, key="", key_start=0):
            return (Blocks(whole).complete if key else super().complete)(prompt, n_predict, key, key_start)

    floors = ("extension", "return", "regenerate")
    for kind, state in ((Blocks, "ok"), (Bypass, "missed")):
        report = conform(partial(kind, whole), keys=["", "image"], max_examples=10)
        assert {report[name].state for name in floors} == {state}


@pytest.mark.parametrize("first, second, alike", [
    (RequestKey("a"), RequestKey("a"), None), (RequestKey("a"), RequestKey("b"), 0), (RequestKey(), RequestKey("b"), 0),
    (RequestKey(), RequestKey("b", 5), 5), (RequestKey("a", 7), RequestKey("b", 5), 5),
    (RequestKey("a", 7), RequestKey("a", 5), 5),
])  # fmt: skip
def test_two_keys_mean_the_same_up_to_the_first_token_that_depends_on_one(first, second, alike):
    assert first.alike(second) == second.alike(first) == alike


def test_a_key_is_sent_only_if_there_is_one():
    assert CacheRequest((1,)).options() == {}
    assert CacheRequest((1,), key=RequestKey("a")).options() == {"key": "a"}
    assert CacheRequest((1,), key=RequestKey("a", 3)).options() == {"key": "a", "key_start": 3}


class NoStart(Blocks):
    """Knows keys of whole prompts only."""

    def complete(self, prompt, n_predict, key=""):
        return super().complete(prompt, n_predict, key)


@pytest.mark.parametrize("cache, keys, said", [
    (FixedCache, ["a"], r"keys need a way to pass a key: complete\(\) has no parameter key"),
    (partial(NoStart, whole), ["", ("a", 2)], r"complete\(\) has no parameter key_start"),
    (FixedCache, "ab", "keys: expected a list of texts, or pairs"), (FixedCache, [("a", -1)], "keys: expected"),
    (FixedCache, [("a",)], "keys: expected"), (FixedCache, [3], "keys: expected"),
])  # fmt: skip
def test_keys_that_cannot_be_sent_are_refused(cache, keys, said):
    with pytest.raises(BadInput, match=said):
        conform(cache, keys=keys)


def test_the_command_prints_kinds_and_reports(capsys):
    main([])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(KINDS)
    main(["salt"])
    assert "unseen      FAILED" in capsys.readouterr().out
    main(["salt", "repaired"])
    assert "OK: " in capsys.readouterr().out


def test_the_example_of_the_page_finds_its_fault():
    page = (Path(cachesim.__file__).parent / "pages" / "own-cache.md").read_text("utf-8")
    code, = (block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "keys=" in block)
    with pytest.raises(Nonconforming) as found:
        exec(code, {"cachesim": cachesim})
    assert found.value.report["key"].finding.line in code.splitlines()[-1]
    exec(code.replace("(tuple(prompt), ", "(key, *prompt, "), {"cachesim": cachesim})
