"""Tests of the campaign that verifies the corpus: same, different and undecided. Without a server."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.llama_server.verify.case import Verification
from cachesim.tools.live.llama_server.verify.compared_requests import UNKNOWN, ComparedRequest, RequestResult
from tests.live.verify_all import DIFFERS, NOT_ASKED, SAME, UNDECIDED, code_of, look

GOOD = RequestResult(0, 5, 200, True)


def verified(same, why="", first="", undecided=""):
    rows = [] if undecided else [ComparedRequest(0, "S5", GOOD, GOOD if same else UNKNOWN, same, why, first)]
    return lambda *_: Verification(rows, "A", "llama_cpp@b11549", [], undecided)


@pytest.mark.parametrize("play, outcome, why", [
    (verified(True), SAME, ""),
    (verified(False, first="batch: p0"), DIFFERS, "0: batch: p0"),
    (verified(None, why="the client disconnected"), UNDECIDED, "0: the client disconnected"),
    (verified(None, undecided="no lengths"), UNDECIDED, "no lengths"),
])  # fmt: skip
def test_outcomes(play, outcome, why, tmp_path):
    (tmp_path / "tiny-A.gguf").touch()
    assert look(from_line("S5", model="A"), "llama_cpp@b11549", "", tmp_path, play) == ("try", outcome, why)


def test_what_no_server_is_asked_for(tmp_path):
    def refuse(*_):
        raise BadInput("task rerank is not played")

    (tmp_path / "tiny-A.gguf").touch()
    assert look(from_line("S5", model="A"), "", "", tmp_path, refuse)[1:] == (NOT_ASKED, "task rerank is not played")
    assert look(from_line("S5", model="G"), "", "", tmp_path, refuse)[1] == NOT_ASKED      # no architecture has it


def test_nothing_may_differ_and_most_must_be_the_same():
    assert code_of([("a", SAME, "")] * 9 + [("b", UNDECIDED, "")]) == 0
    assert code_of([("a", SAME, "")] * 8 + [("b", UNDECIDED, "")] * 2) == 1
    assert code_of([("a", SAME, "")] * 99 + [("b", DIFFERS, "")]) == 1
