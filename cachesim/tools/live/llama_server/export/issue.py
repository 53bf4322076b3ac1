"""Bug report in the form of llama.cpp's issues. Fields that only the reporter can fill in are left blank.

Source: llama.cpp .github/ISSUE_TEMPLATE/011-bug-results.yml (b11549): its fields, in its order.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Iterator, NamedTuple, Sequence

from cachesim.base.errors import BadInput, counted
from cachesim.base.escaping import (
    markdown_block,
    markdown_code,
    markdown_text,
    printable_line,
    shell_command,
    shell_word,
)
from cachesim.base.progress_bar import progress
from cachesim.engines.build_names import without_place
from cachesim.engines.registry import ENGINES
from cachesim.judging.find_change import bisect, neighbours
from cachesim.judging.recompute_reasons import RecomputeReason
from cachesim.tools.live.llama_server.export.affected_versions import (
    BLANK,
    SoughtOutcome,
    affected_versions,
    newest_seen,
)
from cachesim.tools.live.llama_server.export.judged_loss import JudgedLoss
from cachesim.tools.live.llama_server.export.script import Script, make_script
from cachesim.tools.live.llama_server.server import BASE


class ObservedRun(NamedTuple):
    """Observations on a real server: its reported version, the result of each request, lines of its log, the costs of
    its losses, and whether an answer was wrong."""

    version: str
    came: Sequence[str]
    log: Sequence[str]
    costs: Sequence[str] = ()
    is_wrong: bool = False


def issue(script: Script, shell: str, heard: ObservedRun | None = None, needs: str = "llama-server") -> str:
    """Return the text of the report. ``shell``: the script that shows the fault, ``needs``: what it needs besides
    Python. ``heard`` None = without a real server; the results are those of the simulator. Raise BadInput for a case
    without a fault."""
    check_fault(script)
    parts = [
        ("Name and Version", [markdown_code(heard.version) if heard else BLANK.format("llama-server --version")]),
        ("Operating systems", [BLANK.format("operating system")]),
        ("GGML backends", ["CPU" if heard else BLANK.format("backends")]),
        ("Hardware", [BLANK.format("processor, graphics card")]),
        ("Models", [_model(script)]),
        ("Problem description & steps to reproduce", _steps(script, shell, heard, needs)),
        ("First Bad Commit", [*_versions(script), *newest_seen(script.scenario)]),
        ("Relevant log output", _log(heard)),
    ]
    title = f"Eval bug: {BLANK.format('a title in your own words')}"
    return "\n".join([title, "", *(line for name, lines in parts for line in (f"### {name}", "", *lines, ""))])


def first_fault(script: Script) -> str:
    """Return the fault that the report is about in a line, which is known before versions are compared; "" without
    one."""
    number = _reported(script)
    if number is None:
        return ""
    wrong = "wrong answer: " if number in script.broken else ""
    return f"request {number} under {script.profile}: {wrong}{script.faults[number]}"


def check_fault(script: Script) -> None:
    """Raise BadInput for a case without a wrong answer and without lost reuse, which no program could show."""
    if script.faults:
        return
    engine, file = script.scenario.engine, script.scenario.file
    elsewhere = _other_fault(script)
    if script.unmatched:
        number, tokens = max(script.unmatched.items(), key=lambda one: one[1])
        hint = elsewhere or "cachesim advise tries flags and changes of the client"
        raise BadInput(f"no rule set of {engine} reuses the {counted(tokens, 'token')} that request {number} evaluates "
                       f"again under {script.profile}: no server to compare with", file=file, hint=hint)  # fmt: skip
    raise BadInput(f"no wrong answer and no lost reuse under {script.profile}: there is nothing to show", file=file,
                   hint=elsewhere)  # fmt: skip


def _other_fault(script: Script) -> str:
    """Return the last rule set of the case under which it has a fault, as an option and with the fault, without the
    rule that cures it; "" without one."""
    for profile in reversed(script.scenario.profiles):
        with suppress(BadInput):
            found = make_script(script.scenario, profile)
            for number, fault in found.faults.items():
                wrong = "wrong answer: " if number in found.broken else ""
                return f"-p {profile}: request {number}: {wrong}{fault.partition(';')[0]}"
    return ""


def _reported(script: Script) -> int | None:
    """Return the request that the report is about: the first with a wrong answer, or that loses most tokens."""
    if script.loss:
        return max(script.loss.lost, key=lambda one: one.lost).request
    return min(script.faults, default=None)


def _versions(script: Script) -> Iterator[str]:
    """Describe the versions with the fault, and the rules without it."""
    number, engine = _reported(script), ENGINES[script.scenario.engine]
    assert number is not None
    pairs = neighbours(engine)
    shown = progress(pairs, len(pairs), "finding the first bad version")
    course = bisect(script.scenario, engine, shown, requests=(number,))[number]
    kept = script.loss.numbers[number][1] if script.loss else None
    others = {*engine.beside, *without_place(engine)}
    yield from affected_versions(course, others, SoughtOutcome(kept))


def _model(script: Script) -> str:
    model = script.model
    arch, layers, file = map(markdown_text, (model.arch, model.spec.notation, model.file))
    return f"A tiny model with random weights, architecture {arch}, layers {layers}. The script " \
           f"below writes it; with `MODELS=.` it keeps {file} in the current folder."  # fmt: skip


def _steps(script: Script, shell: str, heard: ObservedRun | None, needs: str) -> list[str]:
    server = f"llama-server -m {shell_word(script.model.file)} --port 8080 --slot-save-path /tmp/"
    shows = "the loss shows" if script.loss else "the fault shows"
    return [
        BLANK.format("the summary, in your own words"), "",
        "Command line:", "",
        f"    {printable_line(f'{server} {shell_command(script.flags)}')}", "",
        f"Exact arithmetic: `{' '.join(BASE[:10])}`. Requests (the letter is a text, the number its tokens):", "",
        *_requests(script), "",
        "Actual results:" if heard else "Actual results (from a simulation of this build):", "",
        *(heard.came if heard else _came(script)), "",
        *_expected(script), "",
        *(_cost(script.loss, heard) if script.loss else ()),
        f"<details><summary>Script: needs only {needs} and python3, exit status 1 if {shows}</summary>",
        "", markdown_block(shell.rstrip(), "sh"), "", "</details>",
    ]  # fmt: skip


def _requests(script: Script) -> Iterator[str]:
    from cachesim.scenarios.notation.canonical_text import Lengths, action_text, request_text

    lengths = Lengths(script.scenario.words)
    for number, step in enumerate(script.scenario.steps):
        asked = step.asked
        text = action_text(asked) if step.action is not None else request_text(asked, lengths)  # type: ignore[arg-type]
        yield f"{number}. {markdown_code(text)}"


def _came(script: Script) -> Iterator[str]:
    """Yield the simulated result of every request."""
    lost = script.loss.numbers if script.loss else {}
    for number, one in enumerate(script.expected):
        counts = f"{number}. cache_n {one.cache_n}, evaluated {one.prompt_n}"
        if one.died:
            yield f"{counts}: the process ends"
        elif one.status != 200:
            yield f"{counts}: HTTP {one.status}"
        elif script.loss is None:
            said = f"wrong answer: {markdown_text(one.fault)}" if one.equal is False else "correct answer"
            yield f"{counts}: {said}"
        elif number in lost:
            yield f"{counts}: LOST: {counted(lost[number][1] - one.cache_n, 'token')} evaluated again"
            yield from (f"   - {markdown_text(_reason(one))}" for one in script.loss.reasons[number])
        else:
            yield counts


def _reason(reason: RecomputeReason) -> str:
    where = f"at request {reason.at}, {reason.rule}" if reason.at >= 0 else reason.rule
    return f"tokens {reason.start}..{reason.stop - 1}: {reason.why} ({where})"


def _expected(script: Script) -> Iterator[str]:
    """Yield the results without the fault."""
    if script.loss is None:
        yield "Expected: every request gets the answer of a server without cached tokens, that is equal tokens, and " \
              "log-probabilities that differ only by rounding."  # fmt: skip
        return
    yield f"Expected reuse, with {markdown_text(script.loss.label)} ({markdown_text(script.loss.origin)}):"
    yield ""
    for one in script.loss.lost:
        came = script.expected[one.request]
        yield f"{one.request}. cache_n {one.regained}, evaluated {came.prompt_n - one.lost}"


def _cost(loss: JudgedLoss, heard: ObservedRun | None) -> Iterator[str]:
    """Yield what the losses cost, in tokens and in seconds."""
    is_correct = heard is None or not heard.is_wrong
    answers = "The answers are correct. " if is_correct else ""
    cost = f"{answers}The loss costs {counted(loss.reference.total, 'token')}, which are evaluated again"
    if heard is None or not heard.costs:
        yield f"{cost}; the script prints the seconds that they take on its server."
    else:
        yield f"{cost}:"
        yield ""
        yield from (f"- {one}" for one in heard.costs)
    yield ""


def _log(heard: ObservedRun | None) -> list[str]:
    lines = heard.log if heard is not None else ()
    asked = [] if lines else ["", BLANK.format("lines of the server's log, -lv 5, from the faulty request")]
    log = markdown_block("\n".join(lines), "console")
    return ["<details>", "<summary>Logs</summary>", "", log, "", "</details>", *asked]
