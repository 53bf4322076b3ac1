"""Tests of the key ``lives``: reading, output and errors."""

from __future__ import annotations

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES, profiles
from cachesim.scenarios.load import load
from cachesim.scenarios.schema import Lives
from tests.unit.cli.test_commands import call, call_json
from tests.unit.scenarios.samples import GOOD

HEAD = "llama_cpp@b10587"
LINE = 'profiles = ["llama_cpp@b10587"]\n'


def written(tmp_path, lives):
    file = tmp_path / "good.toml"
    file.write_text(GOOD.replace(LINE, f"{LINE}lives = {lives}\n"))
    return file


def test_it_is_read_and_shown(tmp_path, capsys):
    file = written(tmp_path, f'[{{ request = 1, to = "{HEAD}" }}]')
    assert load(file, frozenset(profiles())).lives == (Lives(1, "", HEAD),)
    code, out = call(capsys, "run", file)
    assert code in (exits.HOLDS, exits.BROKEN) and f"the bug at request 1 exists up to {HEAD}" in out


@pytest.mark.parametrize(("life", "text"), [
    (f'request = 1, from = "llama_cpp@b9518", to = "{HEAD}"', f"exists from llama_cpp@b9518 up to {HEAD}"),
    ('request = 1, from = "llama_cpp@b9518"', "exists from llama_cpp@b9518 on"),
    ("request = 1", "exists in every version with these features"),
])
def test_a_fault_without_end_is_in_the_newest_version(tmp_path, capsys, life, text):
    file = written(tmp_path, f"[{{ {life} }}]")
    assert f"the bug at request 1 {text}\n" in call(capsys, "run", file)[1]
    [row] = call_json(capsys, "run", file)[1]["runs"][0]["lives"]
    assert row["last"] == (HEAD if "to" in life.split() else ENGINES["llama_cpp"].line[-1])
    assert row["in_newest"] == ("to" not in life.split())


@pytest.mark.parametrize("lives, words", [
    (f'[{{ request = 99, to = "{HEAD}" }}]', "unknown request 99"),
    ('[{ request = 0, to = "llama_cpp@b10587x" }]', "did you mean 'llama_cpp@b10587'"),
    ('[{ to = "llama_cpp@b10587" }]', "request is missing"),
    (f'[{{ request = 0, until = "{HEAD}" }}]', "unknown key 'until'"),
    ("[]", "once for each"),
])
def test_it_is_refused_with_its_line(tmp_path, lives, words):
    with pytest.raises(BadInput, match=words) as caught:
        load(written(tmp_path, lives), frozenset(profiles()))
    assert caught.value.line
