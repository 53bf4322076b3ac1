"""Tests in Python: one that stands alone (``pytest``), one in the form of llama.cpp's server tests.

Both play the whole history warm, then every prompt cold, and fail where an answer is not a cold run's. What they share
is below; the first talks with the standard library, the second with ``ServerProcess`` of that project's ``utils``.
"""

from __future__ import annotations

import json
import re
from typing import Any, Iterator, Sequence

from cachesim import __version__
from cachesim.errors import BadInput
from cachesim.live.llama_server.client import GREEDY
from cachesim.live.llama_server.cold import KEPT, cold_flags
from cachesim.live.llama_server.export.python_text import ALONE, COMMON, IN_TREE, TEST_ALONE, TEST_IN_TREE
from cachesim.live.llama_server.export.script import Act, Ask, Part, Script
from cachesim.live.llama_server.export.shell import DEFAULTS, name_of
from cachesim.live.llama_server.server import BASE

_FIELDS = {
    "-c": "n_ctx", "-b": "n_batch", "-ub": "n_ubatch", "-np": "n_slots", "-cram": "cache_ram",
    "--spec-type": "spec_type", "--spec-draft-n-max": "spec_draft_n_max", "-md": "model_draft",
}  # fmt: skip
_SWITCHES = {"--swa-full": "swa_full", "-kvu": "kv_unified", "--context-shift": "enable_ctx_shift",
             "--no-cache-idle-slots": "no_cache_idle_slots"}  # fmt: skip


def pytest_file(script: Script) -> str:
    """A test that needs pytest and a running server. Raises BadInput for a scenario with a restart."""
    if script.restarts:
        raise BadInput("the server is started again in this scenario", hint="--to llama-server-test, or curl "
                       "--with-server", file=script.scenario.file)  # fmt: skip
    head = [*_docstring(script, "URL=http://127.0.0.1:8080 pytest FILE, with an empty server that was started with:",
                        f"llama-server -m {script.model.file} --slot-save-path /tmp/ {' '.join(script.flags)}",
                        f"(exact arithmetic, then TOLERANCE={script.tolerance:g}: {' '.join(BASE[:10])})"),
            *_imports("http.client", "json", "os", "threading", "time", "urllib.error", "urllib.request"),
            ""]  # fmt: skip
    filled = _fill(ALONE, TOLERANCE=f"{DEFAULTS:g}")
    return "\n".join([*head, filled, _shared(), "", _test(TEST_ALONE, script, 4)])


def server_test(script: Script) -> str:
    """A test for the folder tools/server/tests/unit of a checkout of llama.cpp."""
    head = [*_docstring(script, f"The model: pip install 'llm-cachesim[gguf]'; python -m "
                        f"cachesim.live.llama_server.gguf_models '{script.scenario.model}' {script.model.file}",
                        f"Then, in tools/server/tests: CACHESIM_MODEL={script.model.file} ./tests.sh unit/FILE"),
            *_imports("http.client", "json", "os", "shlex", "threading", "time"), "", "import pytest",
            "import requests", "from utils import *", "", ""]  # fmt: skip
    fields, flags = _split([*script.flags])
    text = _fill(IN_TREE, FILE=script.model.file, TOLERANCE=f"{script.tolerance:g}", FIELDS="\n    ".join(fields))
    cold = [*_split(cold_flags(script.flags)[: -len(("--cache-ram", "0", "--ctx-checkpoints", "0", "-lv", "1"))])[1],
            "--ctx-checkpoints", "0"]  # fmt: skip
    test = _fill(TEST_IN_TREE, FILE=script.model.file, FLAGS=_model_paths(_EXACT + flags),
                 COLD_FLAGS=_model_paths(_EXACT + cold))  # fmt: skip
    return "\n".join([*head, text, "", _shared(), "", _test(test, script, 8)])


_EXACT = ["-tb", "1", "--no-warmup", "-fit", "off"]


def _model_paths(flags: Sequence[str]) -> str:
    """A list of flags as Python has it."""
    return json.dumps(list(flags))


def _split(flags: Sequence[str]) -> tuple[list[str], list[str]]:
    """Assignments to fields of ServerProcess, and the flags that have none."""
    fields, rest, words = list[str](), list[str](), list(flags)
    while words:
        word = words.pop(0)
        if word in _SWITCHES:
            fields.append(f"server.{_SWITCHES[word]} = True")
        elif word in _FIELDS:
            value = words.pop(0)
            number = re.fullmatch(r"-?\d+", value)
            path = f'os.path.join(os.path.dirname(MODEL), "{value[7:]}")' if value.startswith("MODELS/") else ""
            fields.append(f"server.{_FIELDS[word]} = {path or (value if number else json.dumps(value))}")
        else:
            rest.append(word)
    return fields, rest


def _fill(text: str, **values: str) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _shared() -> str:
    return _fill(COMMON, GREEDY=_python(dict(GREEDY)), KEPT=_python(list(KEPT)))


def _docstring(script: Script, *more: str) -> Iterator[str]:
    yield f'"""{_plain(script.scenario.title)}'
    yield ""
    yield f"Made by cachesim {__version__} from {_plain(name_of(script.scenario))}, expected numbers: {script.profile}."
    for number in script.broken:
        yield f"Expected: request {number}: {_plain(script.expected[number].fault)}."
    yield from (f"Not as in the simulator: {note}." for note in script.notes)
    yield from more
    yield '"""'


def _plain(text: str) -> str:
    """A text inside of a docstring."""
    return text.replace("\\", "").replace('"', "'").strip()


def _imports(*names: str) -> Iterator[str]:
    yield ""
    yield from (f"import {name}" for name in names)


def _test(text: str, script: Script, indent: int) -> str:
    words = "\n    ".join(f"{_name(word)} = {list(tokens)}" for word, tokens in script.words.items()) or "pass"
    history = "\n".join(" " * indent + line for group in script.groups for line in _group(group, script))
    numbers = [one.number for one in script.asks if one.hang_up is None]
    name = re.sub(r"\W+", "_", script.scenario.id)
    return _fill(text, NAME=name, TITLE=_plain(script.scenario.title), WORDS=words, HISTORY=history,
                 NUMBERS=str(numbers))  # fmt: skip


def _name(word: str) -> str:
    """A word as a variable."""
    return f"w_{word}"


def _group(group: tuple[Ask, ...] | Act, script: Script) -> Iterator[str]:
    if isinstance(group, Act):
        yield from _act(group, script)
        return
    if len(group) == 1:
        yield f"talk.ask({_ask(group[0])})"
    else:
        calls = ", ".join(f"({0.05 * one.after:g}, lambda: talk.ask({_ask(one)}))" for one in group)
        yield f"talk.together({calls})"
    for one in group:
        yield from _heard(one)


def _act(act: Act, script: Script) -> Iterator[str]:
    if act.do != "restart":
        body = {"filename": f"{act.file}.bin"} if act.file else {}
        yield f'talk.post("/slots/{act.id_slot}?action={act.do}", {_python(body)})'
        return
    yield "server.stop()"
    if act.flags is not None:
        fields, flags = _split(act.flags)
        yield f"server = make_server(tmp_path, {_model_paths(_EXACT + flags)})"
        yield from fields
    yield "server.start()"
    yield "talk.post = post_to(server)"


def _ask(one: Ask) -> str:
    prompt = " + ".join(_part(part) for part in one.prompt) or "[]"
    fields = "".join(f", {name}={_python(value)}" for name, value in one.fields.items())
    hang_up = "" if one.hang_up is None else f", hang_up={one.hang_up}"
    return f"{one.number}, {prompt}{fields}{hang_up}"


def _part(one: Part) -> str:
    return _name(one.word) if one.whole else f"{_name(one.word)}[{one.start}:{one.stop}]"


def _heard(one: Ask) -> Iterator[str]:
    for completion, parts in enumerate(one.answers):
        at = 0
        for part in parts:
            yield f"talk.hear({one.number}, {completion}, {at}, {_name(part.word)}, {part.start}, {part.stop})"
            at += part.stop - part.start


def _python(value: Any) -> str:
    """A value from JSON as Python writes it."""
    return repr(value).replace("'", '"')
