"""A POSIX shell script that needs curl and jq only: it plays the whole history warm, then every prompt cold.

Ends with 1 where the fault shows, 0 where it does not, 2 where there is no server. The texts: ``shell_text``.
"""

from __future__ import annotations

import json
import shlex
from typing import Iterator, Sequence

from cachesim import __version__
from cachesim.errors import BadInput
from cachesim.live.llama_server.client import GREEDY
from cachesim.live.llama_server.cold import KEPT, cold_flags
from cachesim.live.llama_server.export import shell_text as t
from cachesim.live.llama_server.export.script import Act, Ask, Group, Part, Script
from cachesim.live.llama_server.server import BASE
from cachesim.scenarios.schema import Scenario

DEFAULTS = 0.2
"""The tolerance on a server whose flags are not ours: ten times what another split of a prompt makes."""


def shell_script(script: Script, with_server: bool = False) -> str:
    """The text of the script. ``with_server``: it writes the tiny models and starts the server. Raises BadInput for a
    scenario with a restart, unless it does."""
    if script.restarts and not with_server:
        raise BadInput("the server is started again in this scenario", hint="--with-server", file=script.scenario.file)
    tolerance = script.tolerance if with_server else DEFAULTS
    lines = ["#!/bin/sh", *_comment(script, with_server), t.SETTINGS.replace("@TOLERANCE@", f"{tolerance:g}").rstrip()]
    lines += [(t.STARTED if with_server else t.GIVEN).rstrip(), "", t.FOLDER.rstrip()]
    lines += list(_server(script) if with_server else _check())
    lines += ["", _words(script), "", _filled(t.ASK)]
    if any(one.hang_up is not None for one in script.asks):
        lines.append(_filled(t.HANG_UP))
    if any(isinstance(one, Act) for one in script.groups):
        lines.append(_filled(t.SLOT))
    lines += ["# The history, warm", *(line for group in script.groups for line in _group(group, script))]
    lines += ["", "# Every prompt, cold"]
    if with_server:
        lines += [f"cold_server() {{ stop; start {_shell(cold_flags(script.flags))}; }}\ncold_server"]
    else:
        lines += ["cold_server() { :; }"]
    lines += [_filled(t.COMPARE)]
    lines += [_compare(script, one) for one in script.asks if one.hang_up is None]
    return "\n".join([*lines, "", t.END])


def _comment(script: Script, with_server: bool) -> Iterator[str]:
    scenario = script.scenario
    yield f"# {scenario.title}"
    yield f"# Made by cachesim {__version__} from {name_of(scenario)}, expected numbers: {script.profile}."
    for number in script.broken:
        yield f"# Expected: request {number}: {script.expected[number].fault}"
    for note in script.notes:
        yield f"# Not as in the simulator: {note}."
    if with_server:
        yield "# LLAMA_SERVER=build/bin/llama-server sh FILE"
    else:
        yield "# Start an empty server, then: URL=http://127.0.0.1:8080 sh FILE"
        yield f"#   llama-server -m {script.model.file} --port 8080 --slot-save-path /tmp/ {_shell(script.flags)}"
        yield f"# A model with the same kinds of layers does as well ({scenario.model}); windows must be as wide."
        yield f"# Exact arithmetic, then TOLERANCE={script.tolerance:g}: {' '.join(BASE[:10])}"
    yield "# Exit status: 1 the fault shows, 0 it does not, 2 no server."


def name_of(scenario: Scenario) -> str:
    """The scenario's id, or its requests in one line."""
    return f"the scenario {scenario.id}" if scenario.file else f"'{scenario!r}'"


def _check() -> Iterator[str]:
    yield 'alive || { echo "no llama-server answers at $URL" >&2; exit 2; }'


def _server(script: Script) -> Iterator[str]:
    yield f"MODEL={shlex.quote(script.model.file)}"
    yield t.MODEL.replace("@BASE@", " ".join(BASE)).rstrip()
    yield f"model {shlex.quote(script.scenario.model)} \"$MODEL\""
    drafter = str(script.scenario.server.get("model_draft") or "")
    if drafter:
        yield f"model {shlex.quote(drafter)} {shlex.quote(f'tiny-{drafter}.gguf')}"
    yield f"start {_shell(script.flags)}"


def _shell(flags: Sequence[str]) -> str:
    """Flags as words of the shell; draft models lie in the folder of models."""
    return " ".join(f'"$MODELS"/{flag[7:]}' if flag.startswith("MODELS/") else shlex.quote(flag) for flag in flags)


def _words(script: Script) -> str:
    kept = ", ".join(json.dumps(word) for word in sorted(script.spelled)) or "empty"
    rows = ",\n  ".join(f'"{word}": {json.dumps(list(tokens))}' for word, tokens in script.words.items())
    return (
        "# The words of the conversation in tokens; answers take the place of theirs\n"
        "jq -c --argjson seed \"$SEED\" --argjson first \"$FIRST\" --argjson size \"$SIZE\" 'with_entries(\n"
        f"  if .key | IN({kept}) then . else .value |= map(if . < 101 then . else $first + (. - 101 + $seed) % $size "
        "end) end)' >\"$DIR/words\" <<'END' || exit 2\n"
        f"{{{rows}}}\nEND"
    )


def _filled(text: str) -> str:
    greedy = json.dumps(dict(GREEDY))
    cold = json.dumps({"cache_prompt": False, "id_slot": 0, **GREEDY})
    fields = {"GREEDY": greedy, "KEPT": ", ".join(KEPT), "COLD": cold}
    for name, value in fields.items():
        text = text.replace(f"@{name}@", value)
    return text


def _group(group: Group, script: Script) -> Iterator[str]:
    if isinstance(group, Act):
        yield _act(group, script)
        return
    for one in group:
        yield f"body {one.number} '{_sum(one.prompt)}' {shlex.quote(json.dumps(dict(one.fields)))}"
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
            yield f"hear {one.number} '{changes}'"


def _act(act: Act, script: Script) -> str:
    if act.do == "restart":
        return f"stop; start {_shell(script.flags if act.flags is None else act.flags)}"
    return f"slot {act.id_slot} {act.do} {shlex.quote(f'{act.file}.bin' if act.file else '')}"


def _send(one: Ask) -> str:
    return f"send {one.number}" if one.hang_up is None else f"hang_up {one.number} {one.hang_up}"


def _sum(parts: Sequence[Part]) -> str:
    """A prompt as an expression of jq."""
    return " + ".join(_part(one) for one in parts) or "[]"


def _part(one: Part) -> str:
    return f".{one.word}" if one.whole else f".{one.word}[{one.start}:{one.stop}]"


def _heard(one: Ask) -> Iterator[str]:
    """Assignments of generated tokens to words; what was not generated stays as it is."""
    for completion, parts in enumerate(one.answers):
        at = 0
        for part in parts:
            size = part.stop - part.start
            said = f"$t[{completion}][{at}:{at + size}]"
            yield f".{part.word}[{part.start}:{part.start}+({said} | length)] = ({said} // [])"
            at += size


def _compare(script: Script, one: Ask) -> str:
    want = script.expected[one.number]
    return f"compare {one.number} {want.cache_n} {want.prompt_n} {want.status}"
