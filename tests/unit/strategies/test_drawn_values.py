"""Tests of drawn values: requests, conversations, servers and cases, and the text of each."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType

import pytest

from cachesim.engines.registry import ENGINES, rules_of
from cachesim.strategies import (
    BadArgument,
    ClientRequest,
    case,
    conversation,
    joined,
    request,
    server,
    text_of,
)
from cachesim.strategies.drawn_values import ALPHABET, place_of_table, profile_of_table

A3, B2 = (1000, 1001, 1002), (1_001_000, 1_001_001)
"""Tokens of the words A3 and B2."""


def test_words_are_the_letters():
    assert "".join(ALPHABET) == "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@pytest.mark.parametrize(("text", "drawn"), [
    ("A3.B2>2", ClientRequest("A3.B2>2", (*A3, *B2), 2)), ("B2", ClientRequest("B2", B2)),
    ("A3!", ClientRequest("A3!", A3, cache=False)),
    ("A3>3!{cancel_after=2}", ClientRequest("A3>3!{cancel_after=2}", A3, 3, False, 2)),
    ("A3[1:2]", ClientRequest("A3[1:2]", A3[1:2])), ("Z1", ClientRequest("Z1", (25_001_000,))),
])  # fmt: skip
def test_a_request_is_read_from_its_text(text, drawn):
    assert request(text) == drawn and repr(drawn) == text


@pytest.mark.parametrize(("text", "error"), [
    ("A3/B3", "expected a request, found 'A3/B3'"),
    ("{restart}", "expected a request with the words A to Z, found '{restart}'"),
    ("AA5", "expected a request with the words A to Z, found 'AA5'"),
    ("a3", "expected a request with the words A to Z, found 'a3'"),
    ("A3..", "expected a request, found 'A3..' (column 4, request 0: '' is not a word (letters, then an optional slice "
             "such as [2:9]))"),
])  # fmt: skip
def test_what_is_not_a_request_is_refused(text, error):
    with pytest.raises(BadArgument) as refused:
        request(text)
    assert str(refused.value) == error


@pytest.mark.parametrize(("tokens", "text"), [
    ((), ""), (A3, "A3"), ((*A3, *B2), "A3.B2"), ((*A3, *A3), "A3.A3"), ((*A3, 1000), "A3.A1"),
    (A3[1:], "[1001, 1002]"), ((*A3, 1004), "[1000, 1001, 1002, 1004]"), ((999,), "[999]"), ((25_001_000,), "Z1"),
    ((26_001_000,), "[26001000]"), ((1000, 1_001_001), "[1000, 1001001]"),
])  # fmt: skip
def test_tokens_of_requests_have_a_text(tokens, text):
    assert text_of(tokens) == text


def test_the_requests_of_a_conversation_are_those_that_clients_send():
    drawn = conversation("A3>2/A.B2{together}/{restart}/A.r2!/A>3{cancel_after=1}")
    assert drawn.requests == (
        ClientRequest("A3>2", A3, 2), ClientRequest("A.B2{together}", (*A3, *B2), together=True),
        ClientRequest("A.r2!", (*A3, 2_001_000, 2_001_001), cache=False),
        ClientRequest("A>3{cancel_after=1}", A3, 3, cancel_after=1),
    )  # fmt: skip
    assert repr(drawn) == drawn.line == "A3>2/A.B2{together}/{restart}/A.r2!/A>3{cancel_after=1}"


def test_a_conversation_is_a_scenario():
    found = conversation("A3/A").scenario("llama_cpp@b10587", "GA", {"parallel": 2})
    assert (repr(found), found.model, found.profiles) == ("A3/A", "GA", ("llama_cpp@b10587",))
    assert found.server == {"parallel": 2}
    assert (conversation("A3/A").scenario().model, conversation("A3/A").scenario().server) == ("GGGA", {})


def test_a_line_that_cannot_be_read_is_a_bad_argument():
    with pytest.raises(BadArgument) as refused:
        conversation("A")
    assert str(refused.value) == "column 1, request 0: word 'A' has no length"


def test_joined_requests_keep_their_tokens():
    drawn = [request(text) for text in ("A3", "A5.B1", "B2>3")]
    found = joined(drawn)
    assert repr(found) == "A5[:3]/A.B2[:1]/B>3"
    assert [len(one.prompt) for one in found.requests] == [3, 6, 2] and found.requests[2].n_predict == 3
    with pytest.raises(BadArgument, match="a conversation needs at least one request"):
        joined([])


def test_a_server_is_its_flags_that_differ_from_the_defaults():
    found = server("llama_cpp", "GA", parallel=2, cache_ram=8192)
    assert (found.engine, found.model, found.options) == ("llama_cpp", "GA", {"parallel": 2})
    assert repr(found) == "--model GA --set parallel=2" and repr(server("mlx_lm", "W8 A")) == "--model 'W8 A'"
    assert (found.drawn.server, found.kept) == ({"parallel": 2, "cache_ram": 8192}, {"parallel", "cache_ram"})
    assert (found.drawn.edges, found.drawn.most) == ((1,), 256)


def test_only_kept_options_are_set():
    found = replace(server("llama_cpp", "GA", parallel=2, cache_ram=0), kept=frozenset({"cache_ram"}))
    assert found.options == {"cache_ram": 0} and repr(found) == "--model GA --set cache_ram=0"


@pytest.mark.parametrize(("given", "error"), [
    (("lama", "GA", {}), "unknown engine 'lama'"), (("llama_cpp", "qwen4", {}), "models: unknown model 'qwen4'"),
    (("llama_cpp", "GA", {"paralel": 2}), "unknown server option 'paralel'"),
])  # fmt: skip
def test_what_is_not_a_server_is_refused(given, error):
    engine, model, options = given
    with pytest.raises(BadArgument) as refused:
        server(engine, model, **options)
    assert str(refused.value).startswith(error)


def test_a_case_is_the_words_of_its_command():
    found = case("A5/A", "llama_cpp@b10587", "GA", parallel=2)
    words = "A5/A -p llama_cpp@b10587 --model GA --set parallel=2"
    assert repr(found) == words and found.command == f"cachesim run {words}"
    assert (found.profile, found.rules, found.seed) == ("llama_cpp@b10587", rules_of("llama_cpp@b10587"), 0)
    assert (repr(found.scenario), found.scenario.server, found.scenario.profiles) == (
        "A5/A", {"parallel": 2}, ("llama_cpp@b10587",))  # fmt: skip
    assert case("A5", found.rules).server.model == "GGGA" and replace(found, seed=3) == found


def test_a_rule_set_that_is_not_known_is_a_bad_argument():
    for name in ("llama_cpp@nosuch", "x"):
        with pytest.raises(BadArgument, match="unknown"):
            case("A5", name)


def test_a_case_that_holds_has_no_failures():
    found = case("A5/A", "llama_cpp@b10587", "GA")
    assert found.failures() == [] and found.judge().rules is found.rules
    found.check()
    found.check("warm-equals-cold", "survives", mode="none")


@pytest.fixture
def mine():
    """A changed table of b10587 whose build is known."""
    return replace(rules_of("llama_cpp@b10587"), name="llama_cpp@mine", min_step=77)


def test_a_changed_table_stands_for_the_nearest_table_of_its_build(mine):
    assert profile_of_table(mine) == "llama_cpp@b10587"
    engine = ENGINES["llama_cpp"]
    assert profile_of_table(replace(mine, build="b0")) == engine.newest
    other = next(rules for rules in engine.profiles.values()
                 if rules.build == mine.build and rules.name != "llama_cpp@b10587")  # fmt: skip
    assert profile_of_table(replace(other, name="llama_cpp@mine")) == other.name
    copied = replace(rules_of("llama_cpp@b9518"), name="llama_cpp@b10587")
    assert profile_of_table(copied) == "llama_cpp@b9518"


def test_a_table_is_named_by_its_register_or_by_the_file_that_has_it(mine, monkeypatch):
    assert place_of_table(rules_of("llama_cpp@b10587")) == "llama_cpp@b10587" and place_of_table(mine) == ""
    module = ModuleType("drawn_values_example")
    module._hidden = mine
    monkeypatch.setitem(sys.modules, "drawn_values_example", module)
    assert place_of_table(mine) == ""
    module.__file__ = "/x/my_rules.py"
    assert place_of_table(mine) == ""
    del module._hidden
    module.MINE = mine
    assert place_of_table(mine) == "/x/my_rules.py:MINE"
    found = case("A5/A", mine, "GA")
    assert repr(found) == "A5/A -p /x/my_rules.py:MINE --model GA" and found.profile == "llama_cpp@b10587"
    assert found.judge().rules is mine
    del module.MINE
    assert found.command == "cachesim run A5/A -p llama_cpp@b10587 --model GA"
