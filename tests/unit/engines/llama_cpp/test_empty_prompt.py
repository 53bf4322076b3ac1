"""An empty token list: the real server refuses it before it creates a task (checked with b10566 and b11549: 400,
"prompt" must not be empty). Source: llama.cpp tools/server/server-common.cpp tokenize_input_prompts (3f545be)."""

from __future__ import annotations

import json
import warnings

import pytest

from cachesim.cli.main import main
from cachesim.engines.shared.prompt_cache_limits import part
from tests.unit.engines.llama_cpp.talk import Talk

HEAD = {"model": "tiny-llama.gguf", "name": "x", "flags": ["-c", "64", "-np", "1"], "server": {"n_slots": 1},
        "inexact": []}  # fmt: skip


def replayed(tmp_path, capsys, engine, profile, step):
    file = tmp_path / "t.json"
    step = {"i": 0, "op": "completion", "request": {"prompt": [], "n_predict": 1}, "events": [], **step}
    file.write_text(json.dumps({**HEAD, "engine": engine, "commit": "", "profile": profile, "steps": [step]}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        code = main(["replay", str(file)])
    assert capsys.readouterr().err == ""
    return code


@pytest.mark.parametrize("profile", ["b10587", "b11549", "b6160"])
def test_an_empty_list_is_refused_without_an_event(tmp_path, capsys, profile):
    refused = {"response": {"status": 400, "error": {"code": 400, "message": '"prompt" must not be empty'}}}
    assert replayed(tmp_path, capsys, "llama.cpp", profile, refused) == 0
    answered = {"response": {"status": 200, "cache_n": 0, "prompt_n": 0, "tokens": []}}
    assert replayed(tmp_path, capsys, "llama.cpp", profile, answered) == 1


@pytest.mark.parametrize("kind", ["embedding", "rerank", "infill", "decision"])
def test_an_empty_list_of_another_task_ends_the_process_with_its_empty_batch(kind):
    """Read in the source: only a completion refuses it before."""
    answer = Talk("A", "b11549").ask((), kind=kind)
    assert (answer.died, answer.error, answer.prompt_n) == (True, "GGML_ASSERT(batch.size() > 0) failed", 0)


def test_ik_llama_answers_an_empty_list(tmp_path, capsys):
    answered = {"response": {"status": 200, "cache_n": 0, "prompt_n": 0, "tokens": []}}
    assert replayed(tmp_path, capsys, "ik_llama.cpp", "main", answered) in (0, 1)


def test_a_prefix_of_an_empty_prompt_gives_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not part(0, 0) > 0 and not part(0, 0) < 1
        assert part(1, 4) == 0.25
