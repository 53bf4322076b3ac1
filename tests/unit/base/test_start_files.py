"""Commands in compose files, Kubernetes manifests, systemd units and Dockerfiles."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.shell_words import LONGEST
from cachesim.base.start_files import start_commands

COMPOSE = """\
services:
  web:
    image: nginx
  model:
    image: vendor/engine:1
    environment:
      - TOKEN=x
    command: --model m --port 80
    ulimits:
      memlock: -1
  other:
    image: "vendor/second"
    entrypoint: python3 -m second
    command:
      --model n
      --page 16
"""
POD = """\
spec:
  containers:
    - name: model
      image: vendor/engine:1
      command: ["/bin/sh", "-c"]
      args:
        - |
          # the server
          engine serve m \\
            --port 80
      ports:
        - containerPort: 80
    - name: side
      command:
      - side
      args: ['--name', 'it''s', "--last"]
"""
UNIT = """\
[Service]
User=llm
Environment="HOME=/srv"
Environment=LEVEL=2
ExecStart=-/opt/bin/engine serve m \\
    --port 80
Restart=always
"""
DOCKERFILE = """\
FROM base AS build
CMD ["make"]
FROM vendor/engine:1
EXPOSE 80
ENTRYPOINT ["engine", "serve", \\
    "m"]
CMD ["--port", "80"]
"""
SERVE = ["engine", "serve", "m", "--port", "80"]


def texts(text: str) -> list[list[str]]:
    """Return the texts of the words of each command line."""
    return [[word.text for word in words] for words in start_commands(text)]


def test_a_service_runs_its_entry_point_or_that_of_its_image() -> None:
    assert texts(COMPOSE) == [
        ["docker", "run", "vendor/engine:1", "--model", "m", "--port", "80"],
        ["python3", "-m", "second", "--model", "n", "--page", "16"],
    ]


def test_a_container_runs_its_command_with_its_arguments() -> None:
    with pytest.raises(BadInput):                       # single and double quotes in one list
        start_commands(POD)
    assert texts(POD.replace('"--last"', "'--last'")) == [SERVE, ["side", "--name", "it's", "--last"]]


def test_a_variable_of_kubernetes_has_the_value_that_the_file_states() -> None:
    pod = """containers:
- args: ["--model=$(MODEL)", "--port=$(PORT)"]
  command: ["serve"]
  env:
  - name: MODEL
    value: vendor/model
  - name: PORT
    valueFrom: {secretKeyRef: {name: port}}
"""
    [(_, model, port)] = start_commands(pod)
    assert (model.text, model.variable) == ("--model=vendor/model", 0)
    assert port.text == "--port=$(PORT)" and port.variable


@pytest.mark.parametrize("text", [
    'command: ["engine", "serve"]\nargs: ["m", "--port", "80",]',
    "command: [\"engine\", \"serve\"]\nargs: [\n  \"m\",\n  \"--port\", \"80\"\n]\nports: []",
    "  command:\n    - engine\n    - serve\n  args:\n    - m\n    - --port\n    - \"80\"\n",
    "  command:\n  - engine\n  - serve\n  args:\n  - m\n  - --port\n  - '80'     # web\n",
    "args: [\"m\", \"--port\", \"80\"]\ncommand: engine serve",
    "command: bash -c \"engine serve m --port 80\"", "command: >\n  bash -lc \"engine serve m\n  --port 80\"\n",
    "command:\n  - bash\n  - \"-c\"\n  - |\n    engine serve m \\\n      --port 80\n",
    "command: [\"/bin/sh\", \"-c\", \"engine serve m --port 80\"]",
    "name: a[b\ncommand: [\"engine\", \"serve\", \"m\"]\nargs: [\n  \"--port\", \"80\"]\nother: c]",
    "\n# note: a\ncommand: engine serve m\n\n# args: x\nargs: [\"--port\", \"80\"]",
    "command: engine serve m\n--port 80",
    "command:\nargs: engine serve m --port 80", "a:\n  image:\n  command: engine serve m --port 80",
    "command: [\"engine\", \"serve\", \"m\", \"--port\", \"80\"]\n    stray\nother: 1",
    "FROM \nCMD engine serve m --port 80",
    "sh -c 'engine serve m --port 80'", "engine serve m --port 80",
    "cmd: \"engine serve m --port 80\"\nother: 1", "command: |\n\n  engine serve m\n  --port 80\nother:\n  - a",
    "ENTRYPOINT [\"engine\", \"serve\"]\nCMD m --port 80", "CMD engine serve m \\\n  --port 80\n",
    "ExecStart=engine serve m --port 80",
])  # fmt: skip
def test_one_command_is_written_in_many_ways(text: str) -> None:
    assert texts(text) == [SERVE]


@pytest.mark.parametrize(("text", "words"), [
    ("command: engine x[0\nother: 1", ["engine", "x[0"]),
    ("command: |\n  engine [\n  m\nother: 1", ["engine", "[", "m"]),
    ("command: 'engine' m\nother: 1", ["engine", "m"]), ("command: run for\nother: 1", ["run", "for"]),
    ("command:\n  - sh\n  - -c\n  - |\n    engine\n    - m\nother: 1", ["engine", "-", "m"]),
    ("engine -c 4096 -np 2", ["engine", "-c", "4096", "-np", "2"]), ("sh run.sh -c x", ["sh", "run.sh", "-c", "x"]),
    ("sh -c", ["sh", "-c"]), ("other: engine serve", ["other:", "engine", "serve"]), ("# nothing", []), ("", []),
])  # fmt: skip
def test_brackets_quotes_and_dashes_may_belong_to_the_words(text: str, words: list[str]) -> None:
    assert texts(text) == [words]


@pytest.mark.parametrize("text", [
    "command: >\n  engine m\nother: 1", "command: 'engine m'\nother: 1", "command: engine m\nother: 1",
    "a:\n  command:\n  - engine\n  - m", "a:\n  command: [\"x\"]\nb:\n  args: engine m", "command: engine m",
])  # fmt: skip
def test_the_words_of_a_value_have_their_places_in_the_whole_text(text: str) -> None:
    found = [word for words in start_commands(text) for word in words if word.text in ("engine", "m")]
    assert [text[word.place - 1 :][: len(word.text)] for word in found] == ["engine", "m"]


def test_a_unit_sets_variables_before_its_command() -> None:
    assert texts(UNIT) == [["HOME=/srv", "LEVEL=2", "/opt/bin/engine", *SERVE[1:]]]


def test_the_last_stage_of_a_dockerfile_starts() -> None:
    assert texts(DOCKERFILE) == [SERVE]
    assert texts("FROM vendor/engine\nCMD --port 80") == [["docker", "run", "vendor/engine", "--port", "80"]]


@pytest.mark.parametrize("text", [COMPOSE, POD.replace('"--last"', "'--last'"), UNIT, "command: a\nargs: [\"b\"]"],
                         ids=["compose", "pod", "unit", "list"])  # fmt: skip
def test_words_have_their_places_in_the_whole_text(text: str) -> None:
    for words in start_commands(text):
        for word in words:
            if word.text in ("docker", "run") or word.text.startswith("vendor") or "'" in word.text:
                continue
            at = text[word.place - 1 :]
            assert at.startswith((word.text, f'"{word.text}', f"'{word.text}", "[")), word


def test_long_files_are_refused_before_they_are_read() -> None:
    with pytest.raises(BadInput, match="at most 20,000 are allowed"):
        start_commands("command: [\n" * LONGEST)
    assert start_commands(COMPOSE.ljust(LONGEST, "#")) == start_commands(COMPOSE)
    with pytest.raises(BadInput, match="20,001 characters"):
        start_commands(COMPOSE.ljust(LONGEST + 1, "#"))
    with pytest.raises(BadInput, match="at character"):
        start_commands("a:\n command: [\n" + "  [\n" * 4000)


def test_text_that_is_no_file_is_one_command_line() -> None:
    assert texts("engine serve m --flags a: b") == [["engine", "serve", "m", "--flags", "a:", "b"]]
    assert texts("--model m") == [["--model", "m"]]
    assert texts("image: vendor/engine\nports: []") == [["image:", "vendor/engine", "ports:", "[]"]]


@pytest.mark.parametrize("text", [
    "sh -c 'engine serve m'", 'exec bash -lc "engine serve m"', "sh -c engine", "command: sh -c 'engine serve'",
    "command: ['/bin/sh', '-c', 'engine serve']", "command:\n- bash\n- -c\n- engine serve\n",
    "command:\n  - bash\n  - '-c'\n  - 'engine serve'\n", "ExecStart=/bin/sh -c 'engine serve m'",
])  # fmt: skip
def test_the_words_of_a_shell_have_their_places_in_the_whole_text(text: str) -> None:
    (words,) = start_commands(text)
    found = [word for word in words if word.text in ("engine", "serve", "m")]
    assert found and [word.place for word in found] == [text.index(word.text) + 1 for word in found]


def test_the_words_of_a_container_that_its_image_starts_have_the_place_of_the_first_argument() -> None:
    words = start_commands(COMPOSE)[0]
    at = COMPOSE.index("--model m") + 1
    assert [(word.text, word.place) for word in words] == [
        ("docker", at), ("run", at), ("vendor/engine:1", at), ("--model", at), ("m", at + 8), ("--port", at + 10),
        ("80", at + 17)]  # fmt: skip


def test_the_last_command_of_a_unit_and_the_last_stage_of_a_dockerfile_count() -> None:
    assert texts("[Service]\nExecStart=a 1\nExecStart=\nEnvironment=B=2\n") == [["B=2", "a", "1"]]
    assert texts("FROM x\nENTRYPOINT [\"a\"]\nFROM y AS z\nCMD b 1") == [["b", "1"]]
    assert texts("FROM x\nENTRYPOINT [\"a\"]\nCMD [\"b\"]\nCMD [\"c\"]") == [["a", "c"]]


@pytest.mark.parametrize("text", [
    "command: engine (x\nother: 1", "command: 'engine (x'\nother: 1", "command: |\n  engine (x\nother: 1",
    "a:\n  command: b\nc:\n  args: engine (x", "ENTRYPOINT engine (x", "ExecStart=engine (x",
    "command:\n- sh\n- -c\n- engine (x", "sh -c 'engine (x'", "command:\n- a\n- \"b\" (x", "command: \"a (x\"",
])  # fmt: skip
def test_an_error_has_its_place_in_the_whole_text(text: str) -> None:
    with pytest.raises(BadInput, match=f"command line at character {text.index('(') + 1}: '\\(' is shell syntax"):
        start_commands(text)
