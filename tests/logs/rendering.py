"""Full logs made of runs: the lines of a server for the events of a run, with timings, progress and ordinary noise.

Timings and progress have the counts of the answer and of the batches; a request whose counts were not recorded
(disconnected, refused, ended by an error) gets none. Noise never contains a number that the rest of the log could
check.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Iterator, Sequence

from cachesim.engines.registry import engine_of
from cachesim.model.hash_mixing import Rng
from cachesim.replay.recorded_trace import Trace
from cachesim.scenarios.schema import Scenario
from tests.logs.causes import add_causes
from tests.logs.concurrent import recorded_events
from tests.logs.full_logs import EventAt, FullLog, LoggedLine, Played, TaskTruth, memory_of, truth_of
from tests.logs.spelling import Style, prefixed, spell, visible

ACCESS = {
    "llama_cpp": ("srv  log_server_r: done request: POST /v1/chat/completions 127.0.0.1 200",
                  "srv  params_from_: Chat format: peg-native", "srv  log_server_r: request: GET /health"),
    "ik_llama": ('INFO [      log_server_request] request | tid="137313730412544" timestamp=1783304170 '
                 'remote_addr="127.0.0.1" remote_port=51234 status=200 method="POST" path="/v1/chat/completions"',),
    "mlx_lm": ('127.0.0.1 - - [02/Sep/2026 10:11:12] "POST /v1/chat/completions HTTP/1.1" 200 -',),
}  # fmt: skip
LOADING = {
    "llama_cpp": ("llama_model_loader: - kv   7:                       general.size_label str              = 27B",
                  "load_tensors: offloading 64 repeating layers to GPU", "load_tensors: offloaded 65/65 layers to GPU",
                  "common_init_from_params: warming up the model with an empty run - please wait ...",
                  "main: server is listening on http://127.0.0.1:8080 - starting the main loop"),
    "ik_llama": ("llm_load_tensors: offloaded 65/65 layers to GPU",
                 'INFO [                    main] HTTP server listening | tid="137313738805248" timestamp=1783304000 '
                 'n_threads_http="7" port="8080" hostname="127.0.0.1"'),
    "mlx_lm": ("2026-09-02 10:11:10,001 - INFO - Starting httpd at 127.0.0.1 on port 8080...",),
}  # fmt: skip


def full_log(name: str, scenario: Scenario, profile: str, played: Played, seed: int, verbosity: int = 0) -> FullLog:
    """Return the full log of a run. ``seed`` draws the prefix, the noise and, if 0, the ``verbosity``."""
    rng, engine = Rng(seed, "log", name), engine_of(profile)
    style = _style(profile, rng)
    writer = _Writer(played.events, truth_of(played, scenario), style, verbosity or rng.one((3, 4, 4, 4, 4, 5)), rng)
    if engine.name == "mlx_lm":
        lines = list(writer.unnamed(played))
        for truth in writer.tasks.values():
            truth.numbers = {key: found for key, found in truth.numbers.items() if key in MLX_NUMBERS}
            truth.lost = 0
    else:
        lines = [*writer.start(played), *writer.lines()]
    flags = played.observer.server.core.settings.flags
    options = {option: getattr(flags, option) for option in dir(flags) if not option.startswith("_")}
    cuts = memory_of(scenario.model, engine.name, bool(scenario.server.get("swa_full")))
    log = FullLog(name, engine.name, profile, style.build, lines, writer.tasks, options, cuts)
    add_causes(log, played, scenario)
    return log


def recorded_log(name: str, trace: Trace, seed: int) -> FullLog | None:
    """Return the full log of a recording with requests at the same time; None if it has no events."""
    rng, (events, tasks) = Rng(seed, "log", name), recorded_events(trace.file)
    style = _style(trace.profile, rng)
    if not events:
        return None
    lines = list(_Writer(events, tasks, style, rng.one((3, 4, 4, 4, 4, 5)), rng).lines())
    cuts = memory_of(trace.model, style.engine, bool(trace.flags.get("swa_full")))
    return FullLog(name, style.engine, trace.profile, style.build, lines, tasks, trace.flags, cuts)


def _style(profile: str, rng: Rng) -> Style:
    """Return the prefix of a build's lines."""
    engine, rules = engine_of(profile), engine_of(profile).rules(profile)
    number = str(getattr(rules, "build", "")).removeprefix("b")
    build = int(number) if engine.name == "llama_cpp" and number.isdigit() else 0
    stamps = engine.name == "llama_cpp" and build >= 8500 and rng.chance(70)
    return Style(engine.name, build, stamps, "[49047] " if stamps and rng.chance(15) else "")


MLX_NUMBERS = ("n_tokens", "cache_n", "prompt_n", "predicted_n")


class _Writer:
    """Writer of the lines of a run."""

    def __init__(
        self, events: Sequence[EventAt], tasks: dict[int, TaskTruth], style: Style, verbosity: int, rng: Rng
    ) -> None:
        self.tasks, self.style, self.verbosity, self.rng = tasks, style, verbosity, rng
        self.events = list(self._printed_late(events)) if 0 < style.build < 6900 else events
        self.clock = 10_000 * (1 + rng.below(9999))
        self.ready = [self._follow_up(place) for place in range(len(events))]

    def _printed_late(self, events: Sequence[EventAt]) -> Iterator[EventAt]:
        """Yield events of old builds, which print a batch only after the removal: from 0 if the slot was cleared."""
        seen: set[int | None] = set()
        for event in events:
            truth = self.tasks.get(-1 if event.task is None else event.task)
            first = event.ev == "batch" and event.task not in seen
            seen |= {event.task} if first else set()
            cleared = first and truth is not None and set(truth.numbers.get("cache_n", ())) == {0}
            yield event._replace(fields={**event.fields, "p0": 0, "n_tokens": 0}) if cleared else event

    def start(self, played: Played) -> Iterator[LoggedLine]:
        """Yield the lines of the start, as far as the run determines them."""
        if self.rng.chance(35):
            return
        yield from (LoggedLine(text) for text in LOADING[self.style.engine])
        if self.style.engine != "llama_cpp":
            return
        flags, events = played.observer.server.core.settings.flags, self.events
        n_ctx = next((event.fields["n_ctx_slot"] for event in events if event.ev == "new_prompt"), None)
        build = self.style.build
        if build:
            yield self._fact(
                f"build: {build} (3f545bec) with GNU 13.3.0 for Linux x86_64"
                if build < 9315
                else f"build_info: b{build}-3f545bec",
                "version",
                {"build": build},
                "srv          main: ",
            )
        yield self._fact(f"llama_context: n_batch       = {flags.batch_size}", "server", {"n_batch": flags.batch_size})
        yield self._fact(
            f"llama_context: n_ubatch      = {flags.ubatch_size}", "server", {"n_ubatch": flags.ubatch_size}
        )
        load = "srv    load_model: "
        slots = played.observer.server.inspection.n_slots
        if n_ctx is not None and build >= 9829:
            unified = str(bool(getattr(flags, "kv_unified", False))).lower()
            yield self._fact(
                f"initializing, n_slots = {slots}, n_ctx_slot = {n_ctx}, kv_unified = '{unified}'",
                "server",
                {"n_slots": slots, "n_ctx_slot": n_ctx},
                load,
            )
        elif build >= 6685:
            yield self._fact(f"initializing slots, n_slots = {slots}", "server", {"n_slots": slots}, load)
        ram = flags.cache_ram
        if build >= 7789 and self.verbosity >= 4:
            limit = "no limit" if ram < 0 else f"{ram} MiB"
            kind = "no_limit" if ram < 0 else "start_cache"
            yield (
                self._fact(f"prompt cache is enabled, size limit: {limit}", kind, {}, load)
                if ram
                else self._fact("prompt cache is disabled - use `--cache-ram N` to enable it", "no_cache", {}, load)
            )
        if build >= 9473 and self.verbosity >= 4:
            most, step = flags.ctx_checkpoints, flags.checkpoint_min_step
            if most and step < 0:  # the default of the build, which the options do not contain
                return
            yield (
                self._fact(
                    f"context checkpoints enabled, max = {most}, min spacing = {step}",
                    "start_ckpt",
                    {"max": most, "step": step},
                    load,
                )
                if most
                else self._fact("context checkpoints disabled", "no_ckpt", {}, load)
            )

    def _fact(self, text: str, ev: str, fields: dict[str, Any], function: str = "") -> LoggedLine:
        stamp = f"0.00.{self.rng.below(999):03}.{self.rng.below(999):03} I " if self.style.stamps else ""
        return LoggedLine(f"{self.style.port}{stamp}{function}{text}", ev, fields)

    def lines(self) -> Iterator[LoggedLine]:
        """Yield the lines of the events, each with those that follow from it."""
        active = set[int]()
        for place, event in enumerate(self.events):
            if event.ev == "launch" and event.task is not None:
                active.add(event.task)
            if event.ev == "release":
                yield from self._timings(event)
            yield from self._line(event)
            if event.ev == "need_one" and self.style.engine == "llama_cpp" and event.fields.get("n_past"):
                text = f"n_past was set to {event.fields['n_past'] - 1}"
                yield from self._text(event, "need_one", text, {"n_past": event.fields["n_past"] - 1})
            for further in self.ready[place]:
                yield from self._line(further)
            if event.ev == "release":
                active.discard(-1 if event.task is None else event.task)
                yield from self._after(event, bool(active))

    def _line(self, event: EventAt) -> Iterator[LoggedLine]:
        if event.ev in ("warn", "error"):
            yield from self._text(event, event.ev, str(event.fields["text"]), {})
            return
        if not (self.style.engine != "llama_cpp" or visible(event.ev, self.style.build, self.verbosity)):
            return
        slot, task = event.slot or 0, -1 if event.task is None else event.task
        spelled = spell(self.style.engine, self.style.build, event.ev, {**event.fields, "slot": slot, "task": task})
        if spelled is not None:
            yield from self._text(event, event.ev, *spelled)

    def _text(self, event: EventAt, ev: str, text: str, fields: dict[str, Any]) -> Iterator[LoggedLine]:
        self.clock += 1 + self.rng.below(90_000)
        slot, task = event.slot or 0, -1 if event.task is None else event.task
        truth = self.tasks.get(task)
        steps = range(truth.step, truth.step + 1) if truth is not None else event.steps
        yield LoggedLine(
            prefixed(self.style, ev, text, slot, task, self.clock), ev, fields, event.slot, event.task, steps
        )

    def _timings(self, event: EventAt) -> Iterator[LoggedLine]:
        """Yield the timings of a request that was answered."""
        truth = self.tasks.get(-1 if event.task is None else event.task)
        if truth is None or "prompt_n" not in truth.numbers or "predicted_n" not in truth.numbers:
            return
        (prompt_n,), (predicted_n,) = truth.numbers["prompt_n"], truth.numbers["predicted_n"]
        headed = not self.style.stamps or self.style.build < 9161  # a heading, then lines without a prefix
        if headed:
            head = prefixed(self.style, "prompt_time", "", event.slot or 0, event.task or 0, self.clock)
            if self.style.engine == "llama_cpp":
                yield LoggedLine(head, "", {}, event.slot, event.task, event.steps)
            else:
                yield LoggedLine(
                    f"slot print_timing: id {event.slot or 0:>2} | task {event.task} | ",
                    "",
                    {},
                    event.slot,
                    event.task,
                    event.steps,
                )
        counts = {"prompt_n": prompt_n, "predicted_n": predicted_n, "total": prompt_n + predicted_n}
        for ev in ("prompt_time", "eval_time", "total_time"):
            spelled = spell(self.style.engine, self.style.build, ev, {**counts, "ms": "3223.94"})
            assert spelled is not None
            for line in self._text(event, ev, *spelled):
                yield replace(line, text=spelled[0]) if headed else line

    def _after(self, event: EventAt, busy: bool) -> Iterator[LoggedLine]:
        if self.rng.chance(40):
            yield LoggedLine(self.rng.one(ACCESS[self.style.engine]))
        if not busy and (self.style.build < 9829 or self.verbosity >= 4):
            spelled = spell(self.style.engine, self.style.build, "idle", {})
            if spelled is not None:
                yield from self._text(event._replace(slot=None, task=None), "idle", *spelled)

    def _follow_up(self, place: int) -> list[EventAt]:
        """Return progress and end of the prompt after the batch at this place, if the next batch shows its end."""
        event = self.events[place]
        truth = self.tasks.get(-1 if event.task is None else event.task)
        if event.ev != "batch" or self.style.engine != "llama_cpp" or truth is None or "prompt_n" not in truth.numbers:
            return []
        later = self.events[place + 1 :]
        if any(one.ev in ("kv_full", "spec_ckpt", "copy_to_child") for one in self.events):
            return []
        mine = [one for one in later if one.task == event.task]
        following = next((one.fields["p0"] for one in mine if one.ev == "batch"), None)
        if len(truth.numbers["n_tokens"]) != 1 or (following is not None and following <= event.fields["p0"]):
            return []
        (n_tokens,) = truth.numbers["n_tokens"]
        done = n_tokens if following is None else following
        if done <= event.fields["p0"]:
            return []
        kept = next(one.fields["p0"] for one in self.events if one.ev == "batch" and one.task == event.task)
        shares = {"share": done / n_tokens, "done_share": (done - kept) / n_tokens}
        fields = {"n_tokens": done, "batch": done - event.fields["p0"], **shares}
        found = [event._replace(ev="progress", fields=fields)]
        if following is None:
            found += [
                event._replace(ev="prompt_done", fields=fields),
                event._replace(ev="prompt_size", fields={"n_tokens": n_tokens}),
            ]
        return found

    def unnamed(self, played: Played) -> Iterator[LoggedLine]:
        """Yield the lines of mlx_lm.server: it names neither slot nor task, and logs look-ups, progress and usage."""
        yield from (LoggedLine(text) for text in LOADING["mlx_lm"])
        for task, truth in sorted(self.tasks.items()):
            steps, counts = range(truth.step, truth.step + 1), truth.numbers
            if not {"prompt_n", "cache_n", "n_tokens", "predicted_n"} <= set(counts):
                continue
            (prompt_n,), (cache_n,), (n_tokens,) = counts["prompt_n"], counts["cache_n"], counts["n_tokens"]
            event = EventAt("fetch", {"prompts": self._entries(played, truth.step), "gb": 0.13}, None, task, steps)
            yield from self._line(event)
            if prompt_n > 1:
                yield from self._line(
                    event._replace(ev="progress_of", fields={"n_tokens": prompt_n, "total": prompt_n})
                )
            yield from self._usage(truth, task, cache_n, n_tokens)
            yield LoggedLine(ACCESS["mlx_lm"][0])

    def _entries(self, played: Played, step: int) -> int:
        """Return the number of cache entries before a request."""
        judged = played.observer.found.get(step - 1)
        return 0 if judged is None else judged.entries

    def _usage(self, truth: TaskTruth, task: int, cache_n: int, n_tokens: int) -> Iterator[LoggedLine]:
        (predicted_n,) = truth.numbers["predicted_n"]
        steps = range(truth.step, truth.step + 1)
        yield LoggedLine("2026-09-02 10:11:12,345 - DEBUG - Outgoing Response: {", "reply", {}, None, task, steps)
        yield LoggedLine('  "usage": {', "", {}, None, task, steps)
        for name, key, count in (
            ("prompt_tokens", "n_tokens", n_tokens),
            ("completion_tokens", "predicted_n", predicted_n),
        ):
            yield LoggedLine(f'    "{name}": {count},', "usage", {key: count}, None, task, steps)
        yield LoggedLine('    "prompt_tokens_details": {', "", {}, None, task, steps)
        yield LoggedLine(f'      "cached_tokens": {cache_n}', "usage", {"cache_n": cache_n}, None, task, steps)
