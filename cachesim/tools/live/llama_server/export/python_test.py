"""Exported Python tests: a standalone test (``pytest``), and a test in the form of llama.cpp's server tests.

Both run the whole history warm, then every prompt cold, and fail if an answer differs from the cold run's or a loss
shows; another number of reused tokens skips them. The second starts its servers with ``ServerProcess`` of that
project's ``utils``.
"""

from __future__ import annotations

import re
from typing import Iterator, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.escaping import python_literal, python_name, python_quoted
from cachesim.tools.live.llama_server import tiny_gguf
from cachesim.tools.live.llama_server.cold_server import UNCACHED, cold_flags
from cachesim.tools.live.llama_server.export import talk
from cachesim.tools.live.llama_server.export.program_text import (
    assignment,
    code_of,
    filled,
    group_lines,
    heading,
    models_text,
)
from cachesim.tools.live.llama_server.export.script import Script, ScriptAction
from cachesim.tools.live.llama_server.export.shell import DEFAULTS
from cachesim.tools.live.llama_server.server import BASE

# Templates of Python tests; `@NAME@` is a placeholder.

ALONE = '''\
URL = os.environ.get("URL", "http://127.0.0.1:8080")
TOLERANCE = float(os.environ.get("TOLERANCE", "@TOLERANCE@"))   # of log-probabilities
'''
TEST_ALONE = '''\
def test_@NAME@():
    """@TITLE@"""
    @WORDS@
    talk = cold = ServerTalk(URL)
    assert talk.request("GET", "/health")[0] == 200, f"no llama-server answers at {URL}"
@HISTORY@
    said = {number: talk.verdict(number, talk.cold(number, cold), TOLERANCE) for number in @NUMBERS@}
    assert {number: one for number, one in said.items() if "DIFFERS" in one or "HTTP 000" in one} == {}
'''
IN_TREE = '''\
TOLERANCE = @TOLERANCE@   # of log-probabilities


def make_server(tmp_path, flags):
    """A server with reproducible arithmetic; ``flags``: those without a field of ServerProcess."""
    server = ServerProcess()
    server.model_hf_repo = server.model_hf_file = None
    server.model_file = f"{tmp_path}/@FILE@"
    server.n_threads, server.fa, server.ctk, server.ctv = 1, "off", "f32", "f32"
    server.slot_save_path = f"{tmp_path}/"
    @FIELDS@
    flags = [word.replace("MODELS/", f"{tmp_path}/") for word in flags]
    binary = os.environ.get("LLAMA_SERVER_BIN_PATH", "../../../build/bin/llama-server")
    server.server_path = f"{tmp_path}/llama-server"
    with open(server.server_path, "w") as file:
        file.write(f'#!/bin/sh\\nexec {shlex.quote(os.path.abspath(binary))} "$@" {shlex.join(flags)}\\n')
    os.chmod(server.server_path, 0o755)
    return server
'''
TEST_IN_TREE = '''\
def test_@NAME@(tmp_path):
    """@TITLE@"""
    for file, model in MODELS.items():
        model.write(f"{tmp_path}/{file}")
    @WORDS@
    server = make_server(tmp_path, @FLAGS@)
    server.start()
    talk = ServerTalk(server.make_url(""))
    try:
@HISTORY@
    finally:
        server.stop()
    server = make_server(tmp_path, @COLD_FLAGS@)
    server.cache_ram, server.spec_type, server.model_draft = 0, None, None
    server.start()
    cold = ServerTalk(server.make_url(""))
    try:
        said = {number: talk.verdict(number, talk.cold(number, cold), TOLERANCE) for number in @NUMBERS@}
    finally:
        server.stop()
    assert {number: one for number, one in said.items() if "DIFFERS" in one or "HTTP 000" in one} == {}
'''


LOSS = '''\
    reuse = [talk.reuse(number, tokens, @REFERENCE@, @MARK@) for number, tokens in @LOST@.items()]
    losses = [f"{one.text} {one.cost}".rstrip() for one in reuse if one.shows]
    if losses:
        pytest.fail("\\n".join(losses))
    undecided = [one.text for one in reuse if one.shows is None]
    if undecided:
        pytest.skip("; ".join(undecided))
'''
"""Lines of a test that judges lost reuse."""
LOADED = '''\
    adapters = talk.request("GET", "/lora-adapters")[1] or []
    assert len(adapters) == {0}, f"expected {0} adapters at {{URL}}, found {{len(adapters)}}"
'''
_FIELDS = {
    "-c": "n_ctx", "-b": "n_batch", "-ub": "n_ubatch", "-np": "n_slots", "-cram": "cache_ram",
    "--spec-type": "spec_type", "--spec-draft-n-max": "spec_draft_n_max", "-md": "model_draft",
}  # fmt: skip
_SWITCHES = {"--swa-full": "swa_full", "-kvu": "kv_unified", "--context-shift": "enable_ctx_shift",
             "--no-cache-idle-slots": "no_cache_idle_slots"}  # fmt: skip


def pytest_file(script: Script) -> str:
    """Return a test that needs pytest and a running server. Raise BadInput for a scenario that restarts or changes
    the server."""
    if script.changes_server:
        raise BadInput(f"the scenario {script.changes_server}, which a pytest file cannot do",
                       hint="use --to llama-server-test or --to script, which can restart it",
                       file=script.scenario.file)  # fmt: skip
    head = _docstring(script, "URL=http://127.0.0.1:8080 pytest FILE, with an empty server that was started with:",
                      f"llama-server -m {script.model.file} --slot-save-path /tmp/ {' '.join(script.placed_flags)}",
                      *script.adapter_note,
                      f"(exact arithmetic, then TOLERANCE={script.tolerance:g}: {' '.join(BASE[:10])})")  # fmt: skip
    imports, code = code_of(talk)
    settings = filled(ALONE, TOLERANCE=f"{DEFAULTS:g}")
    loaded = LOADED.format(len(script.adapters)) if script.adapters else ""
    test = _test(TEST_ALONE.replace("@HISTORY@", f"{loaded}@HISTORY@"), script, 4)
    return "\n".join([*head, *_imports(script, "os", *imports), "", settings, "", code, "", "", test])


def server_test(script: Script) -> str:
    """Return a test for tools/server/tests/unit in a checkout of llama.cpp. It writes the tiny model."""
    imports, code = code_of(talk, tiny_gguf)
    head = [*_docstring(script, "In tools/server/tests: ./tests.sh unit/FILE"),
            *_imports(script, "os", "shlex", *imports), "", "from utils import *", ""]  # fmt: skip
    fields, flags = _split([*script.flags])
    text = filled(IN_TREE, FILE=python_quoted(script.model.file, braces=True), TOLERANCE=f"{script.tolerance:g}",
                  FIELDS="\n    ".join(fields))  # fmt: skip
    cold = [*_split(cold_flags(script.flags)[: -len(UNCACHED)])[1], "--ctx-checkpoints", "0"]
    test = _test(TEST_IN_TREE, script, 8, FLAGS=python_literal(_EXACT + flags),
                 COLD_FLAGS=python_literal(_EXACT + cold))  # fmt: skip
    return "\n".join([*head, text, "", code, "", "", models_text(script), "", "", test])


_EXACT = ["-tb", "1", "--no-warmup", "-fit", "off"]


def _split(flags: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return assignments to fields of ServerProcess, and the flags without a field."""
    fields, rest, words = list[str](), list[str](), list(flags)
    while words:
        word = words.pop(0)
        if word in _SWITCHES:
            fields.append(f"server.{_SWITCHES[word]} = True")
        elif word in _FIELDS:
            value = words.pop(0)
            number = re.fullmatch(r"-?\d+", value)
            path = f"str(tmp_path / {python_literal(value[7:])})" if value.startswith("MODELS/") else ""
            fields.append(f"server.{_FIELDS[word]} = {path or (value if number else python_literal(value))}")
        else:
            rest.append(word)
    return fields, rest


def _docstring(script: Script, *more: str) -> Iterator[str]:
    title, *lines = heading(script)
    status = ["Fails if the loss shows or an answer differs; skipped if the server reuses another number of tokens."]
    first, *rest = map(python_quoted, [title, "", *lines, *(status if script.loss else []), *more])
    yield from (f'"""{first}', *rest, '"""')


def _imports(script: Script, *imports: str) -> Iterator[str]:
    lines = {one if " " in one else f"import {one}" for one in imports}
    yield from ("from __future__ import annotations", "")
    yield from sorted(lines, key=lambda one: (one.startswith("from"), one))
    yield from ("", "import pytest") if script.loss else ()


def _test(text: str, script: Script, indent: int, **values: str) -> str:
    words = assignment("w", {word: list(tokens) for word, tokens in script.words.items()}).replace("\n", "\n    ")
    history = list[str]()
    for group in script.groups:
        if isinstance(group, ScriptAction) and group.do == "restart":
            history += _restart(group.flags)
        else:
            history += group_lines(group)
    numbers = [one.number for one in script.asks if one.hang_up is None]
    if script.loss:
        text += filled(LOSS, LOST=python_literal(script.loss.numbers), REFERENCE=python_literal(script.loss.label),
                       MARK=python_literal(script.loss.mark))  # fmt: skip
    return filled(text, NAME=python_name(script.scenario.id), TITLE=python_quoted(script.scenario.title), WORDS=words,
                  NUMBERS=str(numbers), HISTORY="\n".join(" " * indent + line for line in history), **values)


def _restart(flags: Sequence[str] | None) -> Iterator[str]:
    yield "server.stop()"
    if flags is not None:
        fields, rest = _split(flags)
        yield f"server = make_server(tmp_path, {python_literal(_EXACT + rest)})"
        yield from fields
    yield "server.start()"
