"""Commands of ``cachesim``: their modules and help texts, the overview, and the text of ``cachesim --help``."""

from __future__ import annotations

from textwrap import wrap

from cachesim import __version__

COMMANDS = {
    "run": ("tools.run.run_command", "run scenarios, or requests in one line, under rule sets"),
    "why": ("tools.run.why_command", "show the decisions behind one request of a scenario"),
    "diff": ("tools.run.diff_command", "compare two rule sets on a scenario"),
    "bisect": ("tools.run.bisect_command", "find the version, and the rule in it, that changed the outcome"),
    "advise": ("tools.advise.command", "find flags, builds and request changes that save tokens"),
    "memory": ("tools.memory.command", "memory of a server's caches for a model, before it starts"),
    "playground": ("tools.playground.command", "serve a page that simulates a case as you type it"),
    "lesson": ("tools.lessons.command", "how these caches work, in ten short lessons with exercises"),
    "explain": ("tools.rulebook.explain_command", "explain a rule, a term, a log line or a message"),
    "scenarios": ("tools.run.scenarios_command", "list the scenarios that come with cachesim"),
    "options": ("tools.rulebook.options_command", "list a server's flags: defaults and effects"),
    "profiles": ("tools.rulebook.profiles_command", "list, show or compare rule sets"),
    "import": ("tools.server_logs.command", "turn a server's log into a scenario, with lost tokens and causes"),
    "watch": ("tools.watch.command", "name the cause of each re-evaluation while a server runs"),
    "check": ("tools.conformance.check_command", "test the cache of a running server"),
    "verify": ("tools.live.verify_command", "compare a case with a real llama-server, request by request"),
    "export": ("tools.live.export_command", "write a case as a script, a test, an issue or a scenario file"),
    "fuzz": ("tools.search.fuzz_command", "search for conversations that break a property"),
    "shrink": ("tools.search.shrink_command", "shrink a conversation that breaks a property"),
    "repair": ("tools.search.repair_command", "find the rule change that fixes each failure, and its cost"),
    "merge": ("tools.search.merge_command", "merge the campaigns of several machines"),
    "workload": ("tools.workload.command", "run recorded sessions under rule sets: tokens, MiB, bounds"),
    "record": ("tools.live.record_command", "run scenarios on a real llama-server and record it"),
    "real": ("tools.live.real_command", "install and start real llama-servers from the package index"),
    "replay": ("tools.replay.command", "compare the simulator with recorded traces of real servers"),
    "completion": ("cli.completion", "print a shell completion script"),
}
"""Sub-command -> its module in cachesim, and its help text."""

GROUPS = {
    "your server": ("import", "watch", "check", "advise", "memory", "verify", "export"),
    "simulate": ("run", "why", "diff", "bisect", "playground"),
    "understand": ("lesson", "explain", "scenarios", "options", "profiles"),
    "search": ("fuzz", "shrink", "repair"),
}
"""Heading of ``--help`` -> its commands. All other commands stand in a last line."""

FURTHER = {"recordings and campaigns": ("record", "replay", "merge")}
"""Heading of ``--help-all`` -> commands that only a few users need, and that ``--help`` does not name."""

EXIT_CODES = """\
exit codes: 0 correct, 1 wrong answer or failed property, 2 unusable input,
3 undecided, 5 nothing selected, 70 fault of cachesim, 130 interrupted"""

LISTS = ("profiles", "explain", "options", "scenarios", "lesson", "completion")
"""Commands that only print: a reader may close the pipe early without losing results."""

CARD = (
    ("import", "cachesim import server.log"),
    ("watch", "cachesim watch server.log"),
    ("check", "cachesim check http://127.0.0.1:8080"),
    ("advise", "cachesim advise server.log"),
    ("memory", "cachesim memory llama-3 --memory 32GiB"),
    ("explain", "cachesim explain 'forcing full prompt re-processing'"),
    ("lesson", "cachesim lesson 1"),
    ("run", "cachesim run S40.A60/B80/S.C50/S.A --model qwen3-next -np 2"),
    ("why", "cachesim why llama-24143-entry-removed-dense 3"),
    ("diff", "cachesim diff llama-24143-entry-removed-dense -p b9518 -p pr24143-on-b9518"),
    ("bisect", "cachesim bisect S100.A40/S.B40"),
)
"""Commands of the overview, in the order in which a new user needs them, each with an example."""


def help_text(is_long: bool = False) -> str:
    """Return the text of ``cachesim --help``: the commands by group, the other commands, and the exit codes.
    ``is_long``: the text of ``--help-all``, which has every command."""
    titles = {**GROUPS, **FURTHER} if is_long else GROUPS
    groups = [[f"{title}:", *(f"  {name:10} {COMMANDS[name][1]}" for name in names)]
              for title, names in titles.items()]  # fmt: skip
    named = {name for names in (*GROUPS.values(), *FURTHER.values()) for name in names}
    more = [f"more: {' '.join(name for name in COMMANDS if name not in named)}"]
    options = ["cachesim COMMAND --help: options of a command", "cachesim --help-all: every command",
               "cachesim --version: version and newest rule sets"]  # fmt: skip
    head = ["usage: cachesim COMMAND ...", "", "Reference simulator of cache semantics in LLM servers."]
    parts = [head, *groups, more, options, [EXIT_CODES]]
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def overview() -> str:
    """Return the overview that is printed without a command: the commands of ``--help``, with examples of the first."""
    further = {name for names in FURTHER.values() for name in names}
    rest = [name for name in COMMANDS if name not in dict(CARD) and name not in further]
    lines = [f"cachesim {__version__}: reference simulator of cache semantics in LLM servers", ""]
    for name, example in CARD:
        lines += [f"  {name:8} {COMMANDS[name][1]}", f"      {example}"]
    words = wrap(" ".join(rest), 78, initial_indent="  more:    ", subsequent_indent=" " * 11)
    last = ["Options: cachesim COMMAND --help. All commands: cachesim --help-all.",
            "Shell completion: cachesim completion bash."]  # fmt: skip
    return "\n".join([*lines, *words, "", *last])
