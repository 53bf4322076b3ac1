"""POSIX shell script for a running server, with curl and jq: the whole history warm, then every prompt cold.

Exit status: 1 if the fault or the loss shows, 0 if not, 2 without a server, 3 if a request reuses another number of
tokens. Templates: ``shell_text``.
"""

from __future__ import annotations

import json
import re
from typing import Iterator

from cachesim.base.errors import BadInput
from cachesim.base.escaping import comment_line, jq_string, shell_command, shell_word
from cachesim.tools.live.llama_server.client import GREEDY
from cachesim.tools.live.llama_server.cold_server import KEPT
from cachesim.tools.live.llama_server.export import shell_text as t
from cachesim.tools.live.llama_server.export.program_text import comment, exit_status, filled
from cachesim.tools.live.llama_server.export.script import Group, Script, ScriptAction, ScriptRequest, WordSlice
from cachesim.tools.live.llama_server.server import BASE

DEFAULTS = 0.2
"""Tolerance on a server with unknown flags: ten times the effect of another split of a prompt."""


def shell_script(script: Script) -> str:
    """Return the text of the script. Raise BadInput for a scenario that restarts or changes the server."""
    if script.changes_server:
        raise BadInput(f"the scenario {script.changes_server}", hint="use --to script", file=script.scenario.file)
    lines = ["#!/bin/sh", *_comment(script), filled(t.SETTINGS, TOLERANCE=f"{DEFAULTS:g}").rstrip(), ""]
    loaded = t.LOADED.format(len(script.adapters)) if script.adapters else ""
    lines += [f"{t.FOLDER}{loaded}".rstrip(), "", _words(script), "", _filled(t.ASK)]
    if any(one.hang_up is not None for one in script.asks):
        lines.append(_filled(t.HANG_UP))
    if any(isinstance(one, ScriptAction) for one in script.groups):
        lines.append(_filled(t.SLOT))
    lines += ["# The history, warm", *(line for group in script.groups for line in _group(group))]
    lines += ["", "# Every prompt, cold", _filled(t.COMPARE)]
    for number, want in ((one.number, script.expected[one.number]) for one in script.asks if one.hang_up is None):
        lines.append(f"compare {number} {want.cache_n} {want.prompt_n} {want.status}")
    return "\n".join([*lines, *_losses(script)])


def _losses(script: Script) -> Iterator[str]:
    """Yield the end of the script: the verdicts, and the exit status."""
    if script.loss is None:
        yield from ("", t.END)
        return
    yield from ("", "# Lost reuse")
    yield filled(t.REUSE, REFERENCE=shell_word(script.loss.label), MARK=shell_word(script.loss.mark)).rstrip()
    for number, tokens in script.loss.numbers.items():
        yield f"reuse {number} {' '.join(map(str, tokens))}"
    yield t.END_OF_LOSS


def _comment(script: Script) -> Iterator[str]:
    yield from comment(script)
    server = f"llama-server -m {shell_word(script.model.file)} --port 8080 --slot-save-path /tmp/"
    lines = ["Start an empty server, then: URL=http://127.0.0.1:8080 sh FILE",
             f"  {server} {shell_command(script.placed_flags)}", *script.adapter_note,
             f"A model with equal kinds of layers works as well ({script.scenario.model}); windows must be as wide.",
             f"Exact arithmetic, then TOLERANCE={script.tolerance:g}: {' '.join(BASE[:10])}",
             exit_status(script, "no server")]  # fmt: skip
    yield from map(comment_line, lines)


def _words(script: Script) -> str:
    kept = ", ".join(jq_string(word) for word in sorted(script.spelled)) or "empty"
    rows = ",\n  ".join(f"{jq_string(word)}: {json.dumps(list(tokens))}" for word, tokens in script.words.items())
    renamed = (f"with_entries(\n  if .key | IN({kept}) then . else .value |= map(if . < 101 then . else "
               "$first + (. - 101 + $seed) % $size end) end)")  # fmt: skip
    return ("# The words of the conversation in tokens; answers take the place of theirs\n"
            "jq -c --argjson seed \"$SEED\" --argjson first \"$FIRST\" --argjson size \"$SIZE\" "
            f"{shell_word(renamed, quotes=True)} >\"$DIR/words\" <<'END' || exit 2\n{{{rows}}}\nEND")  # fmt: skip


def _filled(text: str) -> str:
    cold = json.dumps({"cache_prompt": False, "id_slot": 0, **GREEDY})
    return filled(text, GREEDY=json.dumps(dict(GREEDY)), KEPT=", ".join(KEPT), COLD=cold)


def _group(group: Group) -> Iterator[str]:
    if isinstance(group, ScriptAction):
        file = json.dumps(f"{group.file}.bin" if group.file else "", ensure_ascii=False)[1:-1]     # joins JSON text
        yield f"slot {group.id_slot} {shell_word(group.do)} {shell_word(file)}"
        return
    for one in group:
        prompt = " + ".join(map(_part, one.prompt)) or "[]"       # an expression of jq
        yield f"body {one.number} {shell_word(prompt, quotes=True)} {shell_word(json.dumps(dict(one.fields)))}"
    if len(group) == 1:
        yield _send(group[0])
    else:
        for one in group:
            if one.after:
                yield f'sleep "$(jq -n "{one.after} * $DELAY")"'
            yield f"{_send(one)} & P{one.number}=$!"
        yield f"wait {' '.join(f'$P{one.number}' for one in group)}"
    for one in group:
        if changes := " | ".join(_heard(one)):
            yield f"hear {one.number} {shell_word(changes, quotes=True)}"


def _send(request: ScriptRequest) -> str:
    return f"send {request.number}" if request.hang_up is None else f"hang_up {request.number} {request.hang_up}"


def _part(piece: WordSlice) -> str:
    return _path(piece) if piece.is_whole else f"{_path(piece)}[{piece.start}:{piece.stop}]"


def _path(piece: WordSlice) -> str:
    return f".{piece.word}" if re.fullmatch(r"[A-Za-z_]+", piece.word) else f".[{jq_string(piece.word)}]"


def _heard(request: ScriptRequest) -> Iterator[str]:
    """Yield assignments of generated tokens to words; tokens that were not generated stay unchanged."""
    for completion, at, part in request.heard:
        said = f"$t[{completion}][{at}:{at + part.stop - part.start}]"
        yield f"{_path(part)}[{part.start}:{part.start}+({said} | length)] = ({said} // [])"
