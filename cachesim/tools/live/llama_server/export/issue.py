"""Bug report in the form of llama.cpp's issues. Fields that only the reporter can fill in are left blank.

Source: llama.cpp .github/ISSUE_TEMPLATE/011-bug-results.yml (b11549): its fields, in its order.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Sequence

from cachesim.base.console import progress
from cachesim.base.escaping import (
    markdown_block,
    markdown_code,
    markdown_text,
    printable_line,
    shell_command,
    shell_word,
)
from cachesim.engines.registry import ENGINES
from cachesim.judging.find_change import RequestHistory, bisect, neighbours
from cachesim.tools.live.llama_server.export.affected_versions import BLANK, affected_versions, newest_seen
from cachesim.tools.live.llama_server.export.script import ExpectedOutcome, Script
from cachesim.tools.live.llama_server.server import BASE


class ObservedRun(NamedTuple):
    """Observations on a real server: its reported version, the result of each request, and lines of its log."""

    version: str
    came: Sequence[str]
    log: Sequence[str]


def issue(script: Script, shell: str, heard: ObservedRun | None = None, needs: str = "llama-server") -> str:
    """Return the text of the report. ``shell``: the script that shows the fault, ``needs``: what it needs besides
    Python. ``heard`` None = without a real server; the results are those of the simulator."""
    beside = ENGINES[script.scenario.engine].beside
    parts = [
        ("Name and Version", [markdown_code(heard.version) if heard else BLANK.format("llama-server --version")]),
        ("Operating systems", [BLANK.format("operating system")]),
        ("GGML backends", ["CPU" if heard else BLANK.format("backends")]),
        ("Hardware", [BLANK.format("processor, graphics card")]),
        ("Models", [_model(script)]),
        ("Problem description & steps to reproduce", _steps(script, shell, heard, needs)),
        ("First Bad Commit", [*affected_versions(_history(script), beside), *newest_seen(script.scenario)]),
        ("Relevant log output", _log(heard)),
    ]
    title = f"Eval bug: {BLANK.format('a title in your own words')}"
    return "\n".join([title, "", *(line for name, lines in parts for line in (f"### {name}", "", *lines, ""))])


def first_fault(script: Script) -> str:
    """Return the fault that the report is about in a line, which is known before versions are compared; "" without
    one."""
    if not script.broken:
        return ""
    number = script.broken[0]
    return f"request {number} under {script.profile}: wrong answer: {script.expected[number].fault}"


def _history(script: Script) -> RequestHistory | None:
    """Return the history of the first request with a wrong answer under all versions, None without one."""
    if not script.broken:
        return None
    number, engine = script.broken[0], ENGINES[script.scenario.engine]
    pairs = neighbours(engine)
    shown = progress(pairs, len(pairs), "finding the first bad version")
    return bisect(script.scenario, engine, shown, requests=(number,))[number]


def _model(script: Script) -> str:
    model = script.model
    arch, layers, file = map(markdown_text, (model.arch, model.spec.notation, model.file))
    return f"A tiny model with random weights, architecture {arch}, layers {layers}. The script " \
           f"below writes it; with `MODELS=.` it keeps {file} in the current folder."  # fmt: skip


def _steps(script: Script, shell: str, heard: ObservedRun | None, needs: str) -> list[str]:
    wanted = "Expected: every request gets the answer of a server without cached tokens, that is equal tokens, and " \
             "log-probabilities that differ only by rounding."  # fmt: skip
    server = f"llama-server -m {shell_word(script.model.file)} --port 8080 --slot-save-path /tmp/"
    return [
        BLANK.format("the summary, in your own words"), "",
        "Command line:", "",
        f"    {printable_line(f'{server} {shell_command(script.flags)}')}", "",
        f"Exact arithmetic: `{' '.join(BASE[:10])}`. Requests (the letter is a text, the number its tokens):", "",
        *_requests(script), "",
        "Actual results:" if heard else "Actual results (from a simulation of this build):", "",
        *(heard.came if heard else _came(script.expected)), "",
        wanted, "",
        f"<details><summary>Script: needs only {needs} and python3, exit status 1 if the fault shows</summary>",
        "", markdown_block(shell.rstrip(), "sh"), "", "</details>",
    ]  # fmt: skip


def _requests(script: Script) -> Iterator[str]:
    from cachesim.scenarios.notation.canonical_text import Lengths, action_text, request_text

    lengths = Lengths(script.scenario.words)
    for number, step in enumerate(script.scenario.steps):
        asked = step.asked
        text = action_text(asked) if step.action is not None else request_text(asked, lengths)  # type: ignore[arg-type]
        yield f"{number}. {markdown_code(text)}"


def _came(expected: Sequence[ExpectedOutcome]) -> Iterator[str]:
    for number, one in enumerate(expected):
        said = f"wrong answer: {markdown_text(one.fault)}" if one.equal is False else "correct answer"
        end = "the process ends" if one.died else f"HTTP {one.status}" if one.status != 200 else said
        yield f"{number}. cache_n {one.cache_n}, evaluated {one.prompt_n}: {end}"


def _log(heard: ObservedRun | None) -> list[str]:
    lines = heard.log if heard is not None else ()
    asked = [] if lines else ["", BLANK.format("lines of the server's log, -lv 5, from the wrong request")]
    log = markdown_block("\n".join(lines), "console")
    return ["<details>", "<summary>Logs</summary>", "", log, "", "</details>", *asked]
