"""Texts of a log never enter a scenario; with ``--with-text`` the file quotes their beginnings in comments."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from cachesim.cli.main import main
from cachesim.scenarios.load import load
from cachesim.tools.server_logs.import_log import import_log
from cachesim.tools.server_logs.report import log_causes
from cachesim.tools.server_logs.report.log_causes import LONGEST, MOST, SHOWN, quote_as_comments, quoted_prompts
from tests.unit.tools.server_logs.test_import_log import CACHED

CHAT = {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "where is\nthe key"}]}
BODIES = (
    "srv  log_server_r: request:  " + json.dumps({"prompt": "once upon a time", "n_predict": 4}),
    "2026-11-02 10:00:00 - DEBUG - Incoming Request Body: " + json.dumps(CHAT, indent="\t"),
)  # fmt: skip


def with_bodies(tmp_path: Path, *bodies: str) -> Path:
    file = tmp_path / "server.log"
    file.write_text(CACHED.read_text() + "".join(f"{body}\n" for body in bodies))
    return file


@pytest.mark.parametrize("line, shown", [
    ('srv  log: prompt: "once upon a time"', 'prompt: "..."'),
    ("srv  log: text 'once upon', n = 3", "text '...', n = 3"),
    ('srv  log: {"a": "once upon"} later', "{...}"), ('srv  log: say "once upon', 'say "..."'),
    ("srv  log: the server's n = 3", "the server's n = 3"), ('srv  log: a "x\\"once upon" b', 'a "..." b'),
])  # fmt: skip
def test_an_unknown_line_is_shown_without_texts(tmp_path, line, shown):
    data, _ = import_log(with_bodies(tmp_path, line))
    assert [one["text"] for one in data["contents"]["unknown"]][-1:] == [shown]


def lines_of(*bodies: str) -> list[str]:
    return [line for body in bodies for line in body.splitlines()]


def test_prompts_and_last_messages_are_found_on_one_line_or_several():
    assert [one[1:] for one in quoted_prompts(lines_of(*BODIES))] == [
        ("prompt", "once upon a time"), ("user", "where is the key"),
    ]  # fmt: skip
    assert [one.line for one in quoted_prompts(["", *lines_of(*BODIES)])] == [2, 3]


def test_without_the_option_no_text_is_in_the_file_and_with_it_the_file_runs_as_before(tmp_path):
    file = with_bodies(tmp_path, *BODIES)
    data, plain = import_log(file)
    assert not any(word in plain + json.dumps(data) for word in ("once upon", "the key"))
    _, quoting = import_log(file, with_text=True)
    assert quoting.startswith(plain) and tomllib.loads(quoting) == tomllib.loads(plain)
    assert '# ' in quoting and 'prompt: "once upon a time"' in quoting and 'user: "where is the key"' in quoting


def test_the_command_quotes_texts_on_request(tmp_path, capsys):
    file, out = with_bodies(tmp_path, *BODIES), tmp_path / "case.toml"
    assert main(["import", str(file), "-o", str(out), "-q"]) == 0 and "once" not in out.read_text()
    assert main(["import", str(file), "-o", str(out), "-q", "--force", "--with-text"]) == 0
    assert "once upon a time" in out.read_text()
    assert load(out, {"llama_cpp@b11549"}).steps
    capsys.readouterr()


def test_a_log_without_bodies_is_reported():
    data, text = import_log(CACHED, with_text=True)
    assert data["missing"][-1] == "the log contains no request bodies: --with-text has nothing to quote"
    assert "#" not in text


@pytest.mark.parametrize("body", [
    "request: {", "request: {]", "request: []", 'request: {"messages": []}', 'request: {"messages": [3]}',
    'request: {"prompt": 7}', 'request: {"prompt": ""}', 'request: {"messages": [{"content": [7, {"text": 3}]}]}',
    "request: " + '{"a":' * 5000,
], ids=range(9))  # fmt: skip
def test_malformed_bodies_are_skipped(body):
    assert list(quoted_prompts([body, *lines_of(BODIES[0])]))[-1].text == "once upon a time"


def test_long_bodies_and_many_of_them_are_bounded_and_control_characters_are_gone():
    long = "request: " + json.dumps({"prompt": "x\x1b[31m\u202ey" * 500})
    (one,) = quoted_prompts([long])
    assert len(one.text) == SHOWN + 4 and one.text.endswith(" ...")
    assert "\x1b" not in one.text and "\u202e" not in one.text
    assert len(list(quoted_prompts([BODIES[0]] * (MOST + 5)))) == MOST
    endless = ["request: {", *["x" * 1000] * (LONGEST // 1000 + 2), "}", BODIES[0]]
    assert [one.text for one in quoted_prompts(endless)] == ["once upon a time"]


@pytest.mark.parametrize(("role", "shown"), [("x" * 20, "x" * 20), ("x" * 21, "x" * 20), ("a\nb", "a b"), (7, "7")])
def test_a_role_is_short_and_on_one_line(role, shown):
    body = json.dumps({"messages": [{"role": role, "content": "hello"}]})
    assert [quoted.role for quoted in quoted_prompts([f"request: {body}"])] == [shown]


@pytest.mark.parametrize(("body", "quoted"), [
    ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, [("assistant", "b")]),
    ({"messages": [{"content": "b"}]}, [("message", "b")]),
    ({"messages": [{"role": "user", "content": [{"text": "a"}, {"image": 1}, "x", {"text": 2}, {"text": "b"}]}]},
     [("user", "a b")]),
    ({"messages": [{"role": "user", "content": ""}]}, []), ({"messages": ["x"], "prompt": "p"}, [("prompt", "p")]),
    ({"messages": [], "prompt": "p"}, [("prompt", "p")]), ({"prompt": ""}, []), ({"prompt": [1]}, []), ([5], []),
    ({"messages": [{"content": ""}], "prompt": "x"}, []), ({"other": 1}, []),
])  # fmt: skip
def test_the_last_message_of_a_body_or_its_prompt_is_quoted(body, quoted):
    assert [one[1:] for one in quoted_prompts([f"request: {json.dumps(body)}"])] == quoted


def test_a_comment_stays_on_its_line():
    assert quote_as_comments([]) == ""
    body = json.dumps({"prompt": 'a "quoted"\n[server]\nparallel = 9'})
    quoted = quote_as_comments(quoted_prompts([f"request: {body}"]))
    assert tomllib.loads(quoted) == {} and quoted.count("\n") == 3


@pytest.mark.parametrize(("more", "is_found"), [(0, True), (1, False)])
def test_a_body_of_several_lines_is_read_up_to_a_length(monkeypatch, more, is_found):
    """Its first line counts from the body on, and each other line as it is."""
    lines = ["request: {", '"prompt": "once",', '"n": ' + "1" * more + "1", "}"]
    monkeypatch.setattr(log_causes, "LONGEST", len("".join(lines)) - len("request: ") - more)
    assert [one.text for one in quoted_prompts(lines)] == (["once"] if is_found else [])
