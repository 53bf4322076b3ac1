"""Tests of the client model: cutting, branching and repeating."""

from __future__ import annotations

import pytest

from cachesim.engines.capabilities import DrawnServer
from cachesim.model.hash_mixing import Rng
from cachesim.scenarios.notation.canonical_text import Lengths
from cachesim.scenarios.notation.parse import parse_text
from cachesim.scenarios.notation.tree import PLAIN, LineRequest
from cachesim.scenarios.notation.word_lengths import THINK, ImageSize, canonical
from cachesim.tools.search.client_model import ClientExchange, Clients
from cachesim.tools.search.drawn_conversation import draw_conversation

WORLD = DrawnServer("llama_cpp", "A", {}, (8, 64), 100)


def written(text, clients):
    return Lengths().text(canonical(PLAIN._replace(prompt=text), clients.words).prompt)


@pytest.fixture
def clients():
    return Clients(Rng(0), WORLD, {"A": 5, "b": 7})


@pytest.mark.parametrize(("n", "kept", "gone"), [
    (1, "A[:1]", "A[1:].b"), (5, "A", "b"), (6, "A.b[:1]", "b[1:]"), (12, "A.b", None), (40, "A.b", None),
])  # fmt: skip
def test_a_text_is_cut_in_two(clients, n, kept, gone):
    text = parse_text("A.b")
    assert written(clients.cut(text, n), clients) == kept
    behind = clients.behind(text, n)
    assert (written(behind, clients) if behind else None) == gone
    assert clients.size(clients.cut(text, n)) + clients.size(behind) == 12


def test_slices_are_cut_within_their_word(clients):
    text = parse_text("b[2:6]")
    assert written(clients.cut(text, 3), clients) == "b[2:5]"
    assert written(clients.behind(text, 3), clients) == "b[5:6]"


@pytest.mark.parametrize(("n", "kept", "gone"), [
    (4, "b[2:6]", "A.b[1:]"), (5, "b[2:6].A[:1]", "A[1:].b[1:]"), (10, "b[2:6].A.b[1:2]", "b[2:]")])  # fmt: skip
def test_a_slice_counts_as_many_tokens_as_it_has(clients, n, kept, gone):
    text = parse_text("b[2:6].A.b[1:]")
    assert (written(clients.cut(text, n), clients), written(clients.behind(text, n), clients)) == (kept, gone)


def test_prompts_fit_and_go_on_from_what_was_said(clients):
    seen = 0
    for _ in range(300):
        prompt = clients.prompt()
        assert 1 <= clients.size(prompt) <= WORLD.most
        seen += len(clients.talks) > 0 and prompt[0].word == clients.talks[-1].prompt[0].word
        clients.remember(ClientExchange(prompt, (clients.word(2),)))
    assert seen > 150


def test_lengths_gather_at_the_edges(clients):
    drawn = [clients.length(100) for _ in range(2000)]
    assert {1, 6, 10, 62, 66} <= set(drawn)
    assert min(drawn) == 1 and max(drawn) <= 100
    assert sum(62 <= n <= 66 for n in drawn) > 200


def test_new_words_have_names_of_their_own(clients):
    assert len({clients.word(1).word for _ in range(200)}) == 200


def test_a_thought_is_not_a_text_to_begin_with(clients):
    clients.think()
    assert clients.shared() == ["A"]
    assert clients.words[THINK] == 1


def test_words_are_called_by_letters_and_none_twice():
    clients = Clients(Rng(0), WORLD)
    names = [clients.word(1).word for _ in range(60)]
    assert (names[0], names[25], names[26], names[51], names[52]) == ("a", "z", "aa", "az", "ba")
    assert len(set(names)) == 60 and clients.words == dict.fromkeys(names, 1)


def test_an_image_is_kept_whole_or_left_out():
    clients = Clients(Rng(0), WORLD._replace(images=("4x2",)), {"A": 5, "I": ImageSize(4, 2), "b": 7})
    text = parse_text("A.I.b")
    assert [written(clients.cut(text, n), clients) for n in (5, 12, 13, 14)] == ["A", "A", "A.I", "A.I.b[:1]"]
    assert [written(clients.behind(text, n), clients) for n in (4, 5, 6, 13)] == ["A[4:].I.b", "I.b", "b", "b"]


def test_a_server_with_images_gets_new_ones_and_earlier_ones():
    clients = Clients(Rng(0), WORLD._replace(images=("4x2", "3x3")), {})
    for _ in range(60):
        clients.remember(ClientExchange(clients.prompt(), (clients.word(1),)))
    images = {name: str(n) for name, n in clients.words.items() if isinstance(n, ImageSize)}
    assert set(images.values()) == {"4x2", "3x3"}
    sent = [piece.word for exchange in clients.talks for piece in exchange.prompt if piece.word in images]
    assert len(sent) > len(set(sent)) > 5
    assert all(clients.size(exchange.prompt) <= WORLD.most for exchange in clients.talks)


def test_words_that_options_name_occur_in_prompts_and_keep_their_names():
    drawn = [draw_conversation(seed, "llama_cpp", ("lora_scaled=0@M,0",)) for seed in range(40)]
    assert sum("M" in {piece.word for step in case.asked if isinstance(step, LineRequest) for piece in step.prompt}
               for case in drawn) > 30  # fmt: skip
    assert all("@M" in case.server["lora_scaled"] and 1 <= case.words["M"] <= 3 for case in drawn)
    scenario = drawn[0].scenario("llama_cpp@b11549")
    assert "@M" not in scenario.server["lora_scaled"] and "@" in scenario.server["lora_scaled"]


def test_requests_with_a_token_that_no_model_has_come_only_to_servers_with_adapters_or_images():
    def invalid(*options):
        drawn = (draw_conversation(seed, "llama_cpp", options) for seed in range(40))
        return sum("NULL" in case.words for case in drawn)

    assert invalid() == 0 and invalid("lora_scaled=0,0") > 5 and invalid("mmproj=causal") > 5
