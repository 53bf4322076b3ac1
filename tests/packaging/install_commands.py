"""Install commands in the files under version control and in messages of cachesim."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

from cachesim.base import extras
from tests.shared import ROOT

START = re.compile(
    r"\b(?:python3? -m )?pip3? install\b|\bpipx (?:install|run)\b|\buvx\b|\buv (?:add|run|sync|tool|pip)\b"
    r"|\bpre-commit install\b|\b(?:docker|podman) (?:build|run|pull)\b"
    r"|\b(?:conda|mamba|brew|dnf|yum|npm|snap|apt|apt-get) install\b"
)
TOOLS = re.compile("pip|uv|pre-commit|docker|podman|conda|mamba|brew|dnf|yum|npm|snap|apt")
"""Matches every module with a text that ``START`` matches, however its literals are split between words."""
SUFFIXES = {"", ".md", ".py", ".sh", ".yaml", ".yml", ".toml", ".html", ".txt"}
HISTORY = ("CHANGELOG.md", "scenarios/evidence/", "tests/data/", "tests/peers/",
           "tests/unit/tools/run/command_lines.toml")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
PACKAGES = {entry for listed in EXTRAS.values() for entry in listed if not entry.startswith(extras.NAME)}
KNOWN = re.compile(
    r"pip install -e \."
    r"|(?:pip install|uv tool install|uvx --from) (?:\.|dist/\*\.whl|dist/\*\.tar\.gz)(?: cachesim [\w -]+)?"
    r"|pip install '\.\[all\]'"
    r"|pip install \"git\+file://\$PWD@\$\(git describe --tags --always --abbrev=0\)\""
    r"|pip install --no-cache-dir \.|pip install -q llm-cachesim==\$VERSION"
    r"|python -m pip install \"\$\(ls dist/\*\.whl\)\[all\]\"|python -m pip install \"\.\[all\]\""
    r"|python -m pip install (?:--no-index --find-links packages --require-hashes|--require-hashes --only-binary :all:)"
    r" -r \.github/requirements/\w+\.txt"
    r"|(?:python -m )?pip install \"\$GITHUB_ACTION_PATH/[./]+\""
    r"|pip install (?:--quiet )?pre-commit && pre-commit install|pre-commit install"
    r"|pip install @REQUIREMENT@ && PYTHON=server/bin/python sh FILE"
    r"|docker build -t [\w-]+ -f \.container/Containerfile \.|docker run --rm --network host [\w-]+ http://127\.0\.0\.1:8080"
)
"""Commands that tests/packaging runs, beside those with the packages of an extra."""


def packages_of_extras(command: str) -> list[str]:
    """Return the requirements that the command installs if all are packages of our extras, else nothing."""
    if not command.startswith("pip install "):
        return []
    words = [word.strip("'") for word in command.removeprefix("pip install ").split()]
    return words if set(words) <= PACKAGES else []


def is_known(command: str) -> bool:
    """True if a test runs the command: it needs a checkout, or only packages of an extra."""
    return bool(KNOWN.fullmatch(command) or packages_of_extras(command))


def find_commands(text: str) -> list[str]:
    """Return the install commands of a text: what stands between backquotes, else the rest of the line up to a comment.
    A command without an argument is only a name, as in "prints its `pip install`"."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        spans = [(at.start(1), at.end(1)) for at in re.finditer(r"`([^`]+)`", line)]
        done = 0
        for at in START.finditer(line):
            if at.start() < done:
                continue
            done = next((end for start, end in spans if start <= at.start() < end), len(line))
            command = re.sub(r"\s+", " ", re.sub(r"\s+#.*", "", line[at.start() : done])).strip()
            if command != at[0] or command == "pre-commit install":
                found.append(command)
    return found


def _texts(path: Path) -> list[str]:
    """Return the texts of a file; of a module, its strings only, as f-strings without their values."""
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        return [text]
    if not TOOLS.search(text):                          # to parse a module takes longer than all else
        return []
    constants = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    return [one for one in constants if isinstance(one, str)]


def _files() -> list[str]:
    """Return the files under version control; without it (an sdist), all files."""
    if (ROOT / ".git").exists():
        return subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    return [str(path.relative_to(ROOT)) for path in ROOT.rglob("*")]


def printed() -> dict[str, str]:
    """Return every install command that a file prints or a message can contain, with one place that prints it.
    Skips the history, and tests that only name commands."""
    commands = {extras.install_command(extra): f"message for {extra}" for extra in MESSAGES}
    for name in _files():
        path = ROOT / name
        if (path.suffix in SUFFIXES and path.is_file() and not name.startswith(HISTORY)
                and not path.name.startswith("test_") and path != Path(__file__)):  # fmt: skip
            commands.update({command: name for text in _texts(path) for command in find_commands(text)})
    return commands


MESSAGES = {
    "completion": "completion bash",
    "watch": "watch --listen 127.0.0.1:{port} --to http://127.0.0.1:{port}",
    "playground": "playground --port {port}",
    "import": "import bodies.jsonl --tokenizer tokenizer.json --template template.jinja",
    "kv-events": "run A5 -p vllm --kv-events events.msgpack",
    "cluster": "fuzz -p llama_cpp@latest --examples 1 --on dask://127.0.0.1:{port}",
}
"""Extras whose install command a message prints, and a command that needs the extra, in an order in which no extra
brings the packages of a later one. ``port`` is in use, so that no command waits for clients."""
