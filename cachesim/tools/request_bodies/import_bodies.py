"""Import of request bodies: report data (for the terminal and JSON) and a scenario file.

The tokens of a prompt are counted in three groups: the common prefix with an earlier request; tokens that come after a
change, so that they cannot be reused although the previous request contained them (``invalidated_tokens``); and new
tokens at the end (``new_tokens``).
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput, cut
from cachesim.judging.reproduce_command import assumed_flags
from cachesim.scenarios.schema import DEFAULT_PROFILE, Scenario
from cachesim.tools.request_bodies.api_forms import CHAT, bodies_of
from cachesim.tools.request_bodies.body import IMAGE, MARK, TOOL, Body, changed, field_change
from cachesim.tools.request_bodies.body_files import read_bodies
from cachesim.tools.request_bodies.body_stages import AnsweredBody, ComparedBody, RenderedBody
from cachesim.tools.request_bodies.changed_tools import CAUSES as TOOL_CAUSES
from cachesim.tools.request_bodies.changed_tools import tools_change
from cachesim.tools.request_bodies.conversations import spoken_key
from cachesim.tools.request_bodies.cure_saving import CureSetup, lost_with, simulated_cure
from cachesim.tools.request_bodies.import_scenario import (
    SimulatedImport,
    adapter_keys,
    scales_option,
    scales_text,
    simulate_bodies,
)
from cachesim.tools.request_bodies.message_fields import changed_fields
from cachesim.tools.request_bodies.ollama_bodies import reloads
from cachesim.tools.request_bodies.parsed_bodies import PLAIN, as_parsed
from cachesim.tools.request_bodies.plain_render import BodyPlace
from cachesim.tools.request_bodies.prompt_causes import CAUSES, part_of_prompt
from cachesim.tools.request_bodies.reported_reuse import ReplyComparison, reported_reuse
from cachesim.tools.request_bodies.request_diff import kept_by_any, link_requests, render_request
from cachesim.tools.request_bodies.template import Prompt, TemplateRenderer, is_template_option, read_template
from cachesim.tools.request_bodies.tokenizer import EstimatingTokenizer, Tokenizer, TokenPrompts, read_tokenizer


def invalidated_tokens(records: Sequence[ComparedBody], record: ComparedBody, tokenizer: Tokenizer) -> int:
    """Return the number of prompt tokens that the previous request contained and that cannot be reused because of a
    change."""
    if record.is_harmless or record.link.before < 0:
        return 0
    before = records[record.link.before]
    if record.body.is_raw:
        return max(0, min(before.tokens, record.tokens) - record.usable)
    return max(0, record.tokens - record.usable - new_tokens(before, record, tokenizer))


def new_tokens(before: RenderedBody, record: RenderedBody, tokenizer: Tokenizer) -> int:
    """Return the number of tokens in the messages at the end of a prompt that the previous request neither contained
    nor generated."""
    had = {spoken_key(message) for message in before.body.messages}
    messages = record.body.messages
    number = len(messages)
    while number and not messages[number - 1].is_system and spoken_key(messages[number - 1]) not in had:
        number -= 1
    generated = len(before.body.messages)
    if number == generated and number < len(messages) and messages[number].role == "assistant":
        number += 1
    begins = record.plain.begins
    text = record.plain.text[begins[number] :] if number < len(begins) else ""
    return len(tokenizer.tokens(text)) if text else 0


def where(record: ComparedBody) -> str:
    """Return the part of the prompt with the first difference, in words; "" if the sentence of the cause names it."""
    return part_of_prompt(record.body, record.place, record.cause.name)


def at(place: BodyPlace | None, which: str = "") -> dict[str, Any]:
    """Return a place in a body as data: path of the value ("" = end of the body) and character in its text."""
    path, character = ("", None) if place is None else (place.path, place.character)
    return {f"{which}path": path, f"{which}character": character}


def causes(records: Sequence[ComparedBody], lost: Sequence[int]) -> list[dict[str, Any]]:
    """Return the causes, most expensive first. Requests with the same cause in the same part of the prompt are an
    entry, with place and evidence of the first."""
    groups: dict[tuple[str, str], list[int]] = {}
    for number, record in enumerate(records):
        groups.setdefault((record.cause.name, where(record)), []).append(number)
    found: list[dict[str, Any]] = []
    for (name, part), numbers in groups.items():
        record, seen = records[numbers[0]], records[numbers[0]].seen
        found.append({
            "cause": name, "says": CAUSES[name].says, "where": part, **at(record.place), "detail": record.cause.detail,
            "in_requests": numbers, "again": sum(lost[number] for number in numbers), "advice": CAUSES[name].advice,
            "most": max(records[number].usable for number in numbers), "harmless": record.is_harmless,
            "evidence": None if seen is None else {
                "text_common": seen.same, "text_before": seen.before, "text_after": seen.after,
                "previous": record.link.before, "request": numbers[0],
            },
        })  # fmt: skip
    return sorted(found, key=lambda entry: (-entry["again"], entry["in_requests"][0]))


class ImportOptions(NamedTuple):
    """Options of an import."""

    tokenizer: str = ""                # tokenizer file, "" = estimate
    template: str = ""                 # chat template file, "" = plain rendering
    profile: str = DEFAULT_PROFILE     # rule set
    model: str = "GGGA"
    server: Mapping[str, Any] = {}     # server options
    with_text: bool = False            # quote texts in the scenario file
    name: str = ""                     # scenario id, "" = derived from the first file name
    is_cured: bool = False             # run the bodies without the changes of the costliest cause
    other_model: str = ""              # model of a second comparison, "" = none


class ImportedBodies(NamedTuple):
    """Import of request bodies. ``data``: of the report; ``toml``: text of the scenario file, "" if no request can be
    simulated; ``cured``: the requests without the changes of the costliest cause, None = not run, or not all of them.
    """

    data: dict[str, Any]
    toml: str
    cured: Scenario | None


def import_bodies(paths: Sequence[Path], options: ImportOptions) -> tuple[dict[str, Any], str]:
    """Return the report data of these files, and the text of the scenario file. Raise BadInput."""
    imported = imported_bodies(paths, options)
    return imported.data, imported.toml


def imported_bodies(paths: Sequence[Path], options: ImportOptions) -> ImportedBodies:
    """Return the import of these files. Raise BadInput."""
    found, left = read_bodies(paths)
    sent = bodies_of(found)
    source = read_template(Path(options.template)) if options.template else None
    with TemplateRenderer(source, options.template) as template:
        use = PLAIN if all(body.is_raw for body in sent) else template.use()
        bodies = as_parsed(sent, options.profile, use)
        prompts = template.render(bodies)
        with closing(_tokenizer(bodies, prompts, options.tokenizer)) as tokenizer:
            scales = str(options.server.get(scales_option(options.profile), ""))
            records = link_requests(bodies, prompts, tokenizer, adapter_keys(bodies, scales))
            lost = [invalidated_tokens(records, record, tokenizer) for record in records]
            data = _data(paths, records, lost, tokenizer, options)
            data["skipped"] = left
            head = _head(paths, data, options)
            simulated = simulate_bodies(records, options.profile, options.model, options.server, head)
            _simulated(data, simulated, [kept_by_any(records, record) for record in records])
            _reported(data, reported_reuse(records, simulated, tokenizer.exact, options.other_model))
            data["cure"] = cured = None
            if options.is_cured and simulated.toml:
                setup = CureSetup(
                    profile=options.profile,
                    model=options.model,
                    server=options.server,
                    tokenizer=tokenizer,
                    render=template.render,
                    other_model=options.other_model,
                )
                cured = _cure(data, records, prompts, simulated, setup)
    return ImportedBodies(data, simulated.toml, cured)


def _cure(
    data: dict[str, Any],
    records: Sequence[AnsweredBody],
    prompts: Sequence[Prompt | None],
    run: SimulatedImport,
    setup: CureSetup,
) -> Scenario | None:
    """Add the cure of the costliest cause to the report data, and return the requests without its changes if all were
    run; without causes, add what a server with the other model does not keep."""
    worst = next((cause for cause in data["causes"] if not cause["harmless"]), None)
    if worst is not None:
        cure = simulated_cure(records, prompts, worst, run.reused, setup)
        data["cure"] = cure and cure.data
        is_whole = cure is not None and cure.data["first_requests"] == len(records)
        return cure.scenario if cure is not None and is_whole else None
    if data["simulation"]["not_kept"]:
        data["simulation"]["other_not_kept"] = lost_with(records[: len(run.reused)], setup)
    return None


def _tokenizer(bodies: Sequence[Body], prompts: Sequence[Prompt | None], file: str) -> Tokenizer:
    """Return the tokenizer to use: of a file, or an estimate from the prompt lengths in the replies. Raise BadInput if
    token prompts and text prompts are mixed, and for an empty prompt whose length a reply states."""
    tokens = [body.of_tokens for body in bodies]
    if any(tokens) and not all(tokens):
        raise BadInput("some prompts are token lists, others are text", hint="import them separately")
    if any(tokens):
        return TokenPrompts()
    if file:
        return read_tokenizer(Path(file))
    pairs = zip(bodies, prompts, strict=True)
    return EstimatingTokenizer({
        render_request(body, prompt).text: body.reported.prompt
        for body, prompt in pairs if body.reported.prompt is not None and not body.has_media
    })


def _reported(data: dict[str, Any], found: ReplyComparison) -> None:
    """Add the counts of the replies, and their comparison with the simulation, to the report data."""
    for row, compared in zip(data["requests"], found.rows, strict=True):
        row["stated"] = compared.stated
        row["stated_is"] = compared.verdict
    data["reported"] = found.data()


def _data(
    paths: Sequence[Path], records: Sequence[AnsweredBody], lost: Sequence[int], tokenizer: Tokenizer,
    options: ImportOptions,
) -> dict[str, Any]:
    """Return the report data without the simulation."""
    losing = [number for number, tokens in enumerate(lost) if tokens]
    reloaded = reloads([record.body for record in records])
    return {
        "files": [str(path) for path in paths], "arguments": [],
        "forms": list(dict.fromkeys(r.body.form for r in records)),
        "models": list(dict.fromkeys(r.body.model for r in records if r.body.model))[:20],
        "conversations": max(r.link.conversation for r in records) + 1,
        "rendering": options.template or ("as sent" if all(r.body.is_raw for r in records) else "plain"),
        "tokens_exact": tokenizer.exact, "tokenizer": tokenizer.name, "tokens": sum(r.tokens for r in records),
        "media": len({part.text for r in records for message in r.body.messages for part in message.parts
                      if part.kind == IMAGE}),
        "again": sum(lost), "losing": losing, "most": max((records[number].usable for number in losing), default=0),
        "causes": causes(records, lost),
        "requests": [{**_request(records, number, tokens, bool(options.template)), "reload": reloaded.get(number, "")}
                     for number, tokens in enumerate(lost)],
    }  # fmt: skip


def fields_beside(before: RenderedBody, record: ComparedBody, templated: bool) -> list[dict[str, str]]:
    """Return everything beside the texts that differs from the previous request: parameters, fields of messages, and
    tools unless they are the cause. ``templated``: the prompts were rendered by a chat template; if it rendered the
    previous prompt again, template options and fields of messages of the chat API do not matter."""
    a, b = before.body, record.body
    found = changed(a.parameters, b.parameters)
    fields = changed_fields(a, b)
    if templated and record.is_harmless and record.common >= min(len(before.text), record.history):
        options = [one for one in found if is_template_option(one["name"])]
        for one in (*options, *(fields if b.form == CHAT else ())):
            one["matters"] = "no"
    name, detail = tools_change(a.tools, b.tools)
    if name and not (record.place and record.place.kind in (TOOL, MARK) and record.cause.name in TOOL_CAUSES):
        sizes = [f"{len(body.tools)} tools" for body in (a, b)]
        found.append(field_change("tools", sizes[0], detail or f"{name} changed", "perhaps"))
    return found + fields


def _request(records: Sequence[AnsweredBody], number: int, lost: int, templated: bool) -> dict[str, Any]:
    """Return the report data of a request."""
    record = records[number]
    before = record.link.before
    parameters = [] if before < 0 else fields_beside(records[before], record, templated)
    model = before >= 0 and records[before].body.model != record.body.model
    return {
        "request": number, "place": record.body.place, "conversation": record.link.conversation, "previous": before,
        "tokens": record.tokens, "shared": record.shared, "reusable": record.usable,
        "reusable_from": record.under, "again": lost, "adapters": scales_text(record.body.adapters),
        "new_tokens": max(0, record.tokens - kept_by_any(records, record) - lost), "answer": record.answer,
        "stated_prompt": record.body.reported.prompt, "refusal": record.body.refused,
        "characters": None if before < 0 else record.common, "bytes": None if before < 0 else record.bytes,
        "cause": record.cause.name, "says": CAUSES[record.cause.name].says, "where": where(record), **at(record.place),
        **at(record.old_place, "old_"), "detail": record.cause.detail, "model_changed": model, "parameters": parameters,
    }  # fmt: skip


def _head(paths: Sequence[Path], data: Mapping[str, Any], options: ImportOptions) -> dict[str, Any]:
    """Return id, title and why of the scenario file. With ``with_text``, the why quotes the differing texts."""
    stem = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in paths[0].stem.lower()).strip("-")
    count = "exact" if data["tokens_exact"] else "estimated"
    why = (f"Imported from {len(data['requests'])} request bodies: words are invented, lengths are {count} "
           f"({data['tokenizer']}).")  # fmt: skip
    for cause in data["causes"][:3]:
        if cause["harmless"]:
            continue
        why += f" Requests {', '.join(map(str, cause['in_requests'][:12]))}: {cause['says']}."
        if options.with_text and cause["evidence"]:
            sides = cause["evidence"]["text_before"], cause["evidence"]["text_after"]
            why += f" Before: {cut(sides[0], 60)} After: {cut(sides[1], 60)}"
    return {"id": options.name or f"import-{stem or 'bodies'}"[:80], "why": why,
            "title": f"imported from {len(data['requests'])} request bodies"}  # fmt: skip


def _simulated(data: dict[str, Any], run: SimulatedImport, most: Sequence[int]) -> None:
    """Add the results of the simulation to the report data: tokens reused, and tokens that the server did not keep.
    ``most``: tokens of each request that any server can reuse."""
    for row, reused, kept in zip(data["requests"], run.reused, most, strict=False):
        row["simulated"] = reused
        row["not_kept"] = None if reused is None else max(0, kept - reused)
        row["foreign"] = max(0, (reused or 0) - row["reusable"]) if run.adapters else 0
    for row in data["requests"][len(run.reused) :]:
        row["simulated"] = row["not_kept"] = None
        row["foreign"] = 0
    known = [row for row in data["requests"] if row["simulated"] is not None]
    assumed = assumed_flags(run.scenario)
    data["simulation"] = {
        "profile": run.scenario.profiles[0], "model": run.scenario.model, "flags": dict(run.scenario.server),
        "assumed": assumed.flags, "assumed_cap": assumed.cap, "refused": run.refused,
        "played": len(known), "not_played": run.left, "limit": run.limit, "tokens": sum(row["tokens"] for row in known),
        "reused": sum(row["simulated"] for row in known), "new_tokens": sum(row["new_tokens"] for row in known),
        "again": sum(row["again"] for row in known), "not_kept": sum(row["not_kept"] for row in known),
        "foreign": sum(row["foreign"] for row in known), "adapters": run.adapters,
        "adapters_assumed": run.is_assumed, "unnamed": [], "other_not_kept": None,
    }  # fmt: skip
