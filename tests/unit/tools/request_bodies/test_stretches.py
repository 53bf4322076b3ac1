"""Prompts as words of a scenario."""

from __future__ import annotations

from cachesim.tools.request_bodies.import_scenario import ScenarioWords, TokenRequest, WordPart, first, size


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
