"""Prompts as words of a scenario, and the simulated server of an import."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cachesim.scenarios.notation.tree import Piece
from cachesim.tools.request_bodies.body import Body, BodyMessage, BodyText
from cachesim.tools.request_bodies.conversations import ConversationLink
from cachesim.tools.request_bodies.import_scenario import (
    ScenarioWords,
    TokenRequest,
    WordPart,
    adapter_keys,
    cut,
    first,
    scales_option,
    scales_text,
    simulate_bodies,
    size,
)
from cachesim.tools.request_bodies.plain_render import RenderedPrompt
from cachesim.tools.request_bodies.request_diff import link_requests
from cachesim.tools.request_bodies.sent_again import SentRange
from cachesim.tools.request_bodies.tokenizer import EstimatingTokenizer

PROFILE, HEAD = "llama_cpp@b11549", {"id": "made", "title": "t", "why": "w"}


def written(*requests):
    words = ScenarioWords()
    steps = [words.add(one) for one in requests]
    return [[(piece.word, piece.user, piece.stop) for piece in step.prompt] for step in steps], words.words


def test_shared_text_reuses_words_and_new_text_gets_a_new_word():
    steps, words = written(TokenRequest(100, -1, 0, 5), TokenRequest(140, 0, 105, 7), TokenRequest(50, 1, 30, 1))
    assert steps == [[("A", False, None)], [("A", False, None), ("b", False, None), ("C", False, None)],
                     [("A", False, 30), ("E", False, None)]]  # fmt: skip
    assert words == {"A": 100, "b": 5, "C": 35, "d": 7, "E": 20, "f": 1}


def test_the_newest_user_message_begins_with_a_mark():
    steps, words = written(TokenRequest(100, -1, 0, 1, user=60), TokenRequest(150, 0, 100, 1, user=120))
    assert steps[0] == [("A", False, None), ("B", True, None)] and (words["A"], words["B"]) == (60, 40)
    assert steps[1] == [("A", False, None), ("B", True, None), ("D", False, None), ("E", True, None)]
    assert (words["D"], words["E"]) == (20, 30)


def test_a_new_user_message_is_marked_and_a_shared_message_is_not():
    steps, _ = written(TokenRequest(100, -1, 0, 1), TokenRequest(150, 0, 100, 1, user=100),
                       TokenRequest(150, 0, 100, 1, user=40), TokenRequest(90, -1, 0, 1, user=0))  # fmt: skip
    assert steps[1] == [("A", False, None), ("C", True, None)] and steps[2] == [("A", False, None), ("E", False, None)]
    assert steps[3] == [("G", True, None)]


def test_a_fully_shared_prompt_has_no_new_word():
    steps, words = written(TokenRequest(100, -1, 0, 1), TokenRequest(40, 0, 40, 1, user=40))
    assert steps[1] == [("A", False, 40)] and words == {"A": 100, "b": 1, "c": 1}


def test_a_text_is_cut_at_a_token():
    text = [WordPart("A", 5, 5), WordPart("B", 3, 9)]
    assert [first(text, tokens) for tokens in (0, 4, 5, 6, 99)] == [
        [], [WordPart("A", 4, 5)], text[:1], [text[0], WordPart("B", 1, 9)], text]  # fmt: skip
    assert size(text) == 8


def test_a_middle_part_has_no_mark_and_counts_from_the_beginning_of_its_word():
    text = [WordPart("A", 5, 5, user=True), WordPart("B", 3, 9, start=2)]
    assert cut(text, 0, 99) == [WordPart("A", 5, 5), WordPart("B", 3, 9, start=2)]
    assert cut(text, 4, 2) == [WordPart("A", 1, 5, start=4), WordPart("B", 1, 9, start=2)]
    assert cut(text, 5, 2) == [WordPart("B", 2, 9, start=2)]
    assert cut(text, 1, 3) == [WordPart("A", 3, 5, start=1)]
    assert [cut(text, start, tokens) for start, tokens in ((8, 4), (3, 0), (3, -2))] == [[], [], []]


@pytest.mark.parametrize(("part", "piece"), [
    (WordPart("A", 5, 5), Piece("A")), (WordPart("A", 4, 5, True), Piece("A", True, None, 4)),
    (WordPart("A", 4, 5, start=1), Piece("A", False, 1, None)), (WordPart("A", 3, 5, start=1), Piece("A", False, 1, 4)),
])  # fmt: skip
def test_a_part_has_bounds_only_where_it_is_not_the_whole_word(part, piece):
    assert part.piece() == piece


def sent(*again, prompt=200, common=10, base=0, shared=10):
    """Return the words of the prompt after one of 100 tokens with a user message at 60, answered with 8."""
    words = ScenarioWords()
    words.add(TokenRequest(100, -1, 0, 8, user=60))
    step = words.add(TokenRequest(prompt, base, common, 1, before=0, shared=shared, again=again))
    return [(piece.word, piece.start, piece.stop) for piece in step.prompt], words.words


def test_text_that_is_sent_again_repeats_its_words_after_other_text():
    pieces, words = sent(SentRange(-1, 4), SentRange(14, 86), SentRange(100, 8))
    assert pieces == [("A", None, 10), ("D", None, None), ("A", 14, None), ("B", None, None), ("c", None, None),
                      ("E", None, None)]  # fmt: skip
    assert words == {"A": 60, "B": 40, "c": 8, "D": 4, "E": 92, "f": 1}


def test_text_that_is_sent_again_leaves_a_token_for_new_text():
    pieces, words = sent(SentRange(-1, 4), SentRange(14, 86), prompt=30)
    assert pieces == [("A", None, 10), ("D", None, None), ("A", 14, 29), ("E", None, None)]
    assert (words["D"], words["E"]) == (4, 1)
    assert sent(SentRange(-1, 4), SentRange(-1, 9), prompt=15)[0] == [
        ("A", None, 10), ("D", None, None), ("E", None, None)]  # fmt: skip
    assert sent(SentRange(-1, 4), prompt=11)[0] == [("A", None, 10), ("D", None, None)]


def test_a_repeated_text_that_would_extend_the_common_prefix_begins_with_another_token():
    pieces, words = sent(SentRange(10, 20), prompt=50)
    assert pieces == [("A", None, 10), ("D", None, None), ("A", 11, 30), ("E", None, None)]
    assert (words["D"], words["E"]) == (1, 20)


def test_a_longer_common_prefix_with_another_request_hides_the_first_repeated_tokens():
    assert sent(SentRange(-1, 4), SentRange(50, 40), common=12, prompt=60)[0] == [
        ("A", None, 12), ("D", 2, None), ("A", 50, None), ("B", None, 30), ("E", None, None)]  # fmt: skip
    words = ScenarioWords()
    words.add(TokenRequest(20, -1, 0, 1))
    words.add(TokenRequest(20, -1, 0, 1))
    step = words.add(TokenRequest(20, 0, 12, 1, before=1, shared=0, again=(SentRange(0, 15),)))
    assert [(piece.word, piece.start, piece.stop) for piece in step.prompt] == [
        ("A", None, 12), ("C", 12, 15), ("E", None, None)]  # fmt: skip


def test_a_request_has_the_adapters_that_it_names_and_an_answer_of_its_own():
    words = ScenarioWords()
    one, two = words.add(TokenRequest(9, -1, 0, 3, adapters="0:1")), words.add(TokenRequest(9, -1, 0, 2))
    assert (one.extra, two.extra) == ((("lora", "0:1"),), ())
    assert (one.answer, two.answer) == ((Piece("b"),), (Piece("d"),))
    assert words.words == {"A": 9, "b": 3, "C": 9, "d": 2}


def rendered(begins, text=""):
    """Return a rendered prompt by the positions at which its messages begin."""
    return RenderedPrompt(text, len(text), [], [], [], begins)


def record(tokens=20, base=-1, best=0, answer=1, number=0, lora=None, limits=(), **more):
    """Return the record of a raw prompt of so many tokens."""
    parameters = dict(limits) | ({} if lora is None else {"lora": lora})
    text = BodyMessage("", "prompt", (BodyText("text", "prompt", "x"),))
    body = Body("completions", number, f"x.jsonl:{number + 1}", messages=[text], parameters=parameters)
    [one] = link_requests([body], [None], EstimatingTokenizer())
    link = ConversationLink(base, 0, base, 0)
    return replace(one, ids=range(tokens), link=link, base=base, best=best, answer=answer, **more)


def on(*pairs):
    return [{"id": number, "scale": scale} for number, scale in pairs]


def simulated(*records, profile=PROFILE, model="A", **server):
    return simulate_bodies(records, profile, model, server, HEAD)


def test_the_simulation_of_requests_has_their_words_and_the_head_of_its_file():
    found = simulated(record(), record(30, 0, 20, number=1), record(5, 0, 5, number=2), ctx_size=512)
    assert found.reused == [0, 20, 4]
    assert (found.left, found.limit, found.adapters, found.is_assumed) == (0, "", "", False)
    scenario = found.scenario
    assert (scenario.id, scenario.title, scenario.why, scenario.source) == ("made", "t", "w", ("cachesim",))
    assert (scenario.engine, scenario.model, scenario.profiles) == ("llama_cpp", "A", (PROFILE,))
    assert (scenario.server, scenario.words) == ({"ctx_size": 512}, {"A": 20, "b": 1, "C": 10, "d": 1, "e": 1})
    assert found.toml.startswith(
        'schema = 2\nid = "made"\ntitle = "t"\nwhy = "w"\nsource = ["cachesim"]\nengine = "llama_cpp"\nmodel = "A"\n'
        f'profiles = ["{PROFILE}"]\n')  # fmt: skip


@pytest.mark.parametrize(("profile", "option", "is_refused"), [
    ("vllm@0.33.0", "max_model_len", False), ("vllm@0.27.0", "max_model_len", True),
    ("sglang@0.5.23", "context_len", True), (PROFILE, "ctx_size", False)])  # fmt: skip
def test_a_body_may_ask_for_more_tokens_than_its_release_accepts(profile, option, is_refused):
    two = {"max_tokens": 200, "max_completion_tokens": 9}
    cases = (({"max_tokens": 200}, is_refused), ({"max_completion_tokens": 9}, False), (two, False),
             ({"max_tokens": True}, False))  # fmt: skip
    for limits, refused in cases:
        found = simulated(record(100, limits=limits), profile=profile, **{option: 256})
        assert (found.reused == [None]) is refused and bool(found.refused) is refused


def test_a_refused_request_reuses_nothing_that_could_be_reported():
    assert simulated(record(600), record(30, number=1), ctx_size=512).reused == [None, 0]


@pytest.mark.parametrize(("limit", "now", "said"), [
    ("WORD_LENGTH", 30, "request 1: 31 tokens, at most 30 tokens"),
    ("PROMPT_TOKENS", 50, "all prompts together: 51 tokens, at most 50"),
    ("NEW_TOKENS", 3, "all answers together: 4 tokens, at most 3"),
    ("REBUILT", 1, "the scenario: 2 requests, at most 1"),
])  # fmt: skip
def test_requests_up_to_a_limit_are_simulated(lift, limit, now, said):
    lift(**{limit: now})
    if limit == "NEW_TOKENS":                                 # the run counts prompts, too
        assert simulated(record(1, answer=2), record(1, answer=2, number=1)).limit.startswith(f"x.jsonl:2: {said}")
        return
    found = simulated(record(20, answer=2), record(31, answer=2, number=1))
    assert (found.reused, found.left) == ([0], 1)
    assert found.limit.startswith(f"x.jsonl:2: {said}") and found.scenario.words == {"A": 20, "b": 2}
    lift(**{limit: now + 1})
    assert simulated(record(20, answer=2), record(31, answer=2, number=1)).limit == ""


def test_a_long_text_that_is_known_is_not_a_long_word(lift):
    lift(WORD_LENGTH=30)
    assert simulated(record(30), record(60, 0, 30, number=1)).limit == ""


def test_a_limit_of_the_run_leaves_the_words_of_the_requests_before_it(lift):
    lift(NEW_TOKENS=40)
    found = simulated(record(20), record(31, number=1))
    assert (found.reused, found.left, found.scenario.words) == ([0], 1, {"A": 20, "b": 1})
    assert len(found.scenario.steps) == 1 and found.limit.startswith("x.jsonl:2: request 1: the run evaluates")
    lift(NEW_TOKENS=10)
    none = simulated(record(20), record(31, number=1))
    assert (none.reused, none.left, none.toml, none.scenario.words) == ([], 2, "", {})


def test_an_answer_is_simulated_up_to_a_length_and_a_context_holds_the_longest_request():
    found = simulated(record(115_904, answer=9_999))
    assert (found.scenario.server, found.scenario.words["b"]) == ({}, 4_096)
    longer = simulated(record(10), record(115_905, answer=9_999, number=1))
    assert longer.scenario.server["ctx_size"] == 2**18 and "n_slots" not in longer.scenario.server
    assert longer.reused == [0, 0]


@pytest.mark.parametrize(("roles", "begins", "chat", "words"), [
    (("system", "user"), [10, 30], [], {"A": 15, "B": 5, "c": 1}), (("user", "tool"), [0, 30], [], {"A": 20, "b": 1}),
    (("tool", "user", "user", "tool"), [0, 10, 20, 30], [], {"A": 10, "B": 10, "c": 1}),
    (("system",), [10], [], {"A": 20, "b": 1}), (("system", "user"), [10, 30], None, {"A": 20, "b": 1}),
])  # fmt: skip
def test_the_newest_user_message_begins_at_its_share_of_the_text(roles, begins, chat, words):
    messages = [BodyMessage(role, f"messages[{i}]", ()) for i, role in enumerate(roles)]
    body = Body("chat completions", messages=messages, chat=chat)
    assert simulated(record(body=body, plain=rendered(begins, "x" * 40))).scenario.words == words


def test_the_server_has_the_adapters_of_the_lists():
    found = simulated(record(lora=on((0, 1))), record(number=1), record(number=2, lora=on((2, 0.5))))
    assert found.adapters == ("adapters simulated: 3, as in the lists of the requests; "
                              "assumed: scale 1 for requests without a list (--set lora_scaled=...)")  # fmt: skip
    assert found.is_assumed and found.scenario.server["lora_scaled"] == "1,1,1"
    listed = simulated(record(lora=on((0, 1))), record(number=1, lora=on((63, 1))))
    assert listed.adapters == "adapters simulated: 64, as in the lists of the requests" and not listed.is_assumed
    given = simulated(record(lora=on((0, 1))), record(number=1), lora_scaled="0.5")
    assert (given.adapters, given.is_assumed) == ("adapters simulated", False)
    assert given.scenario.server["lora_scaled"] == "0.5"
    many = simulated(record(lora=on((99, 1))))
    assert many.scenario.server["lora_scaled"] == ",".join(["1"] * 64)


def test_without_simulated_adapters_prompts_share_text_only_under_equal_lists():
    records = [record(lora=on((0, 1))), record(20, 0, 20, number=1, lora=on((1, 1))),
               record(20, 1, 12, number=2, lora=on((1, 1)), under=1, usable=20)]  # fmt: skip
    found = simulated(*records, profile="mlx_lm@0.31.3")
    assert found.scenario.words == {"A": 20, "b": 1, "C": 20, "d": 1, "e": 1}
    assert found.adapters == "mlx_lm@0.31.3 has no adapters: simulated as other text under each list of adapters"
    assert not found.is_assumed and [step.request.extra for step in found.scenario.steps] == [{}] * 3


def test_what_a_prompt_is_computed_under_leaves_out_the_scale_0():
    def body(*pairs):
        return Body("", parameters={"lora": on(*pairs)})

    bodies = [body(), body((0, 1)), body((0, 1), (1, 0)), body((0, 0))]
    one, none = frozenset({(0, 1.0)}), frozenset()
    assert adapter_keys(bodies, "") == [None, one, one, none]
    assert adapter_keys(bodies, "1,0") == [one, one, one, none]
    assert adapter_keys(bodies, "x,-0.5,0")[0] == frozenset({(1, -0.5)})
    assert (scales_option(PROFILE), scales_option("mlx_lm@0.31.3")) == ("lora_scaled", "")


def test_the_model_may_be_a_file(tmp_path):
    sizes = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}
    (tmp_path / "config.json").write_text(json.dumps(sizes))
    found = simulated(record(20), profile="vllm@0.33.0", model=str(tmp_path))
    assert (found.scenario.model, found.scenario.server["real_model"]) == ("A", str(tmp_path / "config.json"))


def test_adapters_are_written_by_their_number_with_their_scale():
    assert scales_text({2: 0.5, 0: 1.0, 1: 0.1234567}) == "0:1,1:0.123457,2:0.5" and scales_text({}) == ""
    found = simulated(record(lora=on((0, 1))), record(number=1), record(number=2, lora=on((2, 0.5))))
    assert [dict(step.request.extra) for step in found.scenario.steps] == [{"lora": "0:1"}, {}, {"lora": "2:0.5"}]
