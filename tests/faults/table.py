"""Injected faults: a function for each, which injects the fault in a folder and returns what survived."""

from __future__ import annotations

import atexit
import json
import os
import resource
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Callable, NamedTuple

from cachesim.base import exits
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load
from tests.faults.victim import End, Victim

DATA = Path(__file__).resolve().parents[1] / "data"
SEARCH = ("fuzz", "-p", "ik_llama@1889-base", "--model", "GA", "--property", "warm-equals-cold", "--no-shrink",
          "--json")  # fmt: skip
EXAMPLES = 60            # conversations of a short search: 4 of them have a wrong answer
LONG, SHORT = ("--examples", 100_000), ("--examples", EXAMPLES)
HALF = 8                 # files before and after the invalid one
CASES = sorted(map(str, corpus_files().values()))[: 2 * HALF]
TRACES = sorted((DATA / "llama_cpp").glob("*.json"))[: 2 * HALF]


class Row(NamedTuple):
    """Result of a fault."""

    name: str
    codes: list[int]         # exit codes
    left: int                # processes left over
    seconds: float
    survived: str            # description of what survived
    wrong: list[str]         # unexpected results


class Ground(NamedTuple):
    """Folder for a fault, with a list of unexpected results."""

    folder: Path
    wrong: list[str]

    def expect(self, what: str, found: Any, expected: Any) -> None:
        if found != expected:
            self.wrong.append(f"{what}: {found!r} instead of {expected!r}"[:300])

    def files(self, rests: bool = False) -> list[Path]:
        """Return the findings in the folder, after checking that all are readable. ``rests``: a temporary file may be
        left, which is not counted as a finding."""
        for file in self.folder.iterdir():
            if file.name.startswith("."):
                if not rests:
                    self.wrong.append(f"{file.name} was left")
            elif file.suffix == ".json":
                json.loads(file.read_bytes())
        found = sorted(self.folder.glob("fuzz-*.toml"))
        for file in found:
            load(file)
        return found

    def told(self, end: End, rests: bool = False) -> str:
        """Check that printed and stored findings are equal, and return a summary."""
        data, files = json.loads(end.out), self.files(rests)
        self.expect("files", [file.stem for file in files], sorted(one["id"] for one in data["failures"]))
        return f"{len(files)} findings of {data['examples']} conversations, printed and on disk"


FAULTS: dict[str, Callable[[Ground], tuple[list[End], list[int], str]]] = {}


def fault(name: str) -> Callable[[Callable[[Ground], Any]], Callable[[Ground], Any]]:
    """Return a decorator that adds a function to the table."""
    def entered(what: Callable[[Ground], Any]) -> Callable[[Ground], Any]:
        FAULTS[name] = what
        return what
    return entered


def happen(name: str, folder: Path) -> Row:
    """Inject a fault in an empty folder."""
    ground = Ground(folder, [])
    ends, codes, survived = FAULTS[name](ground)
    ground.expect("exit codes", [end.code for end in ends], codes)
    left = sum(end.left for end in ends)
    ground.expect("processes left", left, 0)
    for end in ends:
        if "Traceback" in end.err:
            ground.wrong.append("a traceback: " + end.err[-300:])
    return Row(name, [end.code for end in ends], left, max(end.seconds for end in ends), survived, ground.wrong)


@cache
def undisturbed(*argv: object) -> Any:
    """Return the output of a command without a fault."""
    return json.loads(Victim(*argv).end().out)


def searching(ground: Ground, *more: object, **how: Any) -> Victim:
    """Return a long campaign in two processes that has already found a failure."""
    return Victim(*SEARCH, *LONG, "-j", 2, "--out", ground.folder, *more, **how).until("written")


@fault("Ctrl-C in a campaign")
def interrupted(ground: Ground) -> Any:
    end = searching(ground).signal_all(signal.SIGINT).end()
    return [end], [exits.INTERRUPTED], ground.told(end)


@fault("SIGTERM to a campaign")
def terminated(ground: Ground) -> Any:
    end = searching(ground).signal(signal.SIGTERM).end()
    return [end], [143], ground.told(end)


@fault("SIGKILL of a campaign, resumed")
def killed(ground: Ground) -> Any:
    first = searching(ground).signal(signal.SIGKILL).end()
    n = len(ground.files(rests=True))
    ground.expect("findings before", n > 0, True)
    second = Victim(*SEARCH, *SHORT, "-j", 2, "--out", ground.folder, "--resume").end()
    ground.told(second, rests=True)
    state = json.loads(next(ground.folder.glob("campaign-*.json")).read_bytes())
    if state["played"] == EXAMPLES:
        ground.expect("resumed", json.loads(second.out), undisturbed(*SEARCH, *SHORT))
    return [first, second], [-9, exits.BROKEN], f"{n} findings on disk; resumed, nothing counted twice"


@fault("SIGKILL of a worker of a campaign")
def bereft(ground: Ground) -> Any:
    argv = (*SEARCH, *SHORT)
    end = Victim(*argv, "-j", 2, "--out", ground.folder).until("written").kill_worker().end()
    ground.expect("result", json.loads(end.out), undisturbed(*argv))
    return [end], [exits.BROKEN], "all: another worker ran its conversations"


@fault("SIGKILL of a workload, resumed")
def half_played(ground: Ground) -> Any:
    """Run sessions, with an invalid file in the middle that is reported when it is reached."""
    sessions, lines = ground.folder / "sessions", ground.folder / "lines"
    sessions.mkdir()
    for i in range(24):
        text = "{}" if i == 12 else "".join(json.dumps({"blocks": [*range(2 + n)]}) + "\n" for n in range(20 + i))
        (sessions / f"{i:02}.jsonl").write_text(text)
    line = ("workload", sessions, "--detail", "counts", "-j", 2, "--json")
    first = Victim(*line, "--out", lines).until("12.jsonl").signal(signal.SIGKILL).end()
    n = sum(one.read_bytes().count(b"\n") - 1 for one in lines.glob("workload-*"))
    ground.expect("some of the lines", 0 < n < 23, True)
    second = Victim(*line, "--out", lines, "--resume").end()
    ground.expect("lines", json.loads(second.out), undisturbed(*line))
    return [first, second], [-9, exits.BAD_INPUT], f"{n} of 23 lines; resumed, nothing played twice"


SMALL_DISK = """mount -t tmpfs -o size=8k none "$1" || exit 99
disk=$1; keep=$2; shift 2
"$@"; code=$?
cp -a "$disk"/. "$keep"
exit $code"""


@fault("disk full during a campaign")
def full(ground: Ground) -> Any:
    """Run on a disk with room for two small files, which only the command and its processes see."""
    (disk := ground.folder / "disk").mkdir()
    before = ("unshare", "-rm", "/bin/sh", "-c", SMALL_DISK, "sh", disk, ground.folder)
    end = Victim(*SEARCH, *SHORT, "-j", 2, "--out", disk, before=before).end()
    disk.rmdir()
    data = json.loads(end.out)
    ground.expect("findings", data["failures"], undisturbed(*SEARCH, *SHORT)["failures"])
    ground.expect("told", "cannot be written: no space left on device" in end.err, True)
    return [end], [exits.BROKEN], f"{len(data['failures'])} findings printed, {len(ground.files())} of them on disk"


@fault("no room for temporary files")
def crowded(ground: Ground) -> Any:
    """Run a campaign whose servers save slots, without room for the files."""
    ends = [Victim(*SEARCH, *SHORT, "-j", jobs, preexec_fn=lambda: no_larger_than(100)).end() for jobs in (1, 2)]
    for end in ends:
        ground.expect("told", "file too large; results so far" in end.err, True)
        ground.expect("not played", json.loads(end.out)["examples"] < EXAMPLES, True)
    return ends, [exits.BAD_INPUT] * 2, "nothing was found before"


def no_larger_than(n: int) -> None:
    """Limit the size of files of this process [bytes]."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (n, n))


@fault("disk full from the beginning")
def full_at_once(ground: Ground) -> Any:
    def limit() -> None:
        no_larger_than(3)

    end = Victim(*SEARCH, *SHORT, "--out", ground.folder, preexec_fn=limit, stdout=subprocess.DEVNULL).end()
    ground.expect("told", end.err.count("\n"), 1)
    return [end], [exits.BAD_INPUT], f"refused before the campaign; {len(list(ground.folder.iterdir()))} files"


@fault("folder that cannot be written")
def read_only(ground: Ground) -> Any:
    closed = ground.folder / "closed"
    closed.mkdir(mode=0o500)
    end = Victim(*SEARCH, *SHORT, "--out", "/proc/self" if os.geteuid() == 0 else closed).end()
    ground.expect("told", end.err.count("\n"), 1)
    closed.rmdir()
    return [end], [exits.BAD_INPUT], "refused before the campaign"


@fault("disk full at run --complete")
def incomplete(ground: Ground) -> Any:
    source = corpus_files()["llama-24143-entry-removed-dense"]
    file = ground.folder / source.name
    file.write_text(text := source.read_text().partition("[expect")[0])
    line = ("run", file, "-p", "llama_cpp@b10587", "--complete")
    end = Victim(*line, preexec_fn=lambda: no_larger_than(100), stdout=subprocess.DEVNULL).end()
    ground.expect("the file", file.read_text() == text, True)
    ground.expect("what else is there", [one.name for one in ground.folder.iterdir()], [file.name])
    return [end], [exits.BAD_INPUT], "the old file, whole"


@fault("reader of stdout gone")
def unread(ground: Ground) -> Any:
    read, write = os.pipe()
    os.close(read)
    ends = [Victim(*line, stdout=write).end() for line in (
        (*SEARCH, *SHORT, "--out", ground.folder), (*SEARCH[:-1], *SHORT), ("profiles", "list"), ("--help",),
    )]  # fmt: skip
    os.close(write)
    ground.expect("stderr", [end.err for end in ends[1:]], [""] * 3)
    gone = exits.BROKEN_PIPE            # also if the reader wants only the beginning of a list
    return ends, [gone, gone, exits.HOLDS, gone], f"{len(ground.files())} findings on disk"


@fault("stdout full or closed")
def deaf(ground: Ground) -> Any:
    with open("/dev/full", "w") as device:
        first = Victim(*SEARCH, *SHORT, "--out", ground.folder, stdout=device.fileno()).end()
    ground.expect("told", first.err.splitlines()[-1].partition(" written: ")[2], "no space left on device")
    second = Victim("profiles", "list", preexec_fn=lambda: os.close(1)).end()
    ground.expect("told", second.err.count("\n"), 1)
    return [first, second], [exits.BAD_INPUT] * 2, f"{len(ground.files())} findings on disk"


@fault("a terminal that knows ASCII only")
def ascii_only(ground: Ground) -> Any:
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    ends = [Victim(*line, env=env).end() for line in (
        ("run", "S40.A30/Longer10.Words10.Than10.The10.Column10"), (*SEARCH[:-1], *SHORT),
    )]  # fmt: skip
    ground.expect("stderr", [end.err for end in ends], ["", ""])
    return ends, [exits.HOLDS, exits.BROKEN], "all"


@fault("two campaigns into one folder")
def together(ground: Ground) -> Any:
    other = tuple("ik_llama@main" if word == "ik_llama@1889-base" else word for word in SEARCH)
    lines = [(*SEARCH, *SHORT), (*other, "--seed", 1, *SHORT), (*SEARCH, "--seed", 1, *SHORT)]
    ends = [victim.end() for victim in [Victim(*line, "--out", ground.folder) for line in lines]]
    found = sorted(one["id"] for line in lines for one in undisturbed(*line)["failures"])
    ground.expect("files", [file.stem for file in ground.files()], found)
    codes = [exits.BROKEN if undisturbed(*line)["failures"] else exits.HOLDS for line in lines]
    again = Victim(*lines[0], "--out", ground.folder).end()
    told = json.loads(again.out)["error"]["hint"] if again.out else ""
    ground.expect("the same again", ("--resume continues" in again.err, "--resume continues" in told), (True, True))
    return [*ends, again], [*codes, exits.BAD_INPUT], f"{len(found)} findings of three; the same one again is refused"


@fault("time is over")
def late(ground: Ground) -> Any:
    argv = [word for word in SEARCH if word != "--no-shrink"]
    end = Victim(*argv, "--minutes", 0.05, "-j", 2, "--out", ground.folder).end()
    data = json.loads(end.out)
    left = sum(not one["shrunk"] for one in data["failures"])
    ground.expect("what was not shrunk is said", f"not shrunk: {left} of" in end.err, left > 0)
    code = exits.BROKEN if data["failures"] else exits.HOLDS        # possibly no findings in so short a time
    return [end], [code], f"{ground.told(end)}; {left} not shrunk (asked for 3.0 s)"


TOO_NEW = """id = "too-new"
title = "a draft before there were any"
source = ["cachesim"]
why = "an option that the build does not have is reported when the run is reached"
engine = "llama_cpp"
model = "A"
profiles = ["llama_cpp@b6685"]
[server]
spec_type = "ngram-simple"
[words]
A = 3
[[request]]
prompt = "A"
"""


@cache
def invalid_file(name: str, text: str) -> Path:
    """Return a file of a folder that stays until the end of this process, so that equal commands have equal results."""
    folder = mkdtemp(prefix="faults-")
    atexit.register(rmtree, folder, ignore_errors=True)
    file = Path(folder) / name
    file.write_text(text)
    return file


def several_runs() -> tuple[object, ...]:
    """Return a command about many scenarios, with an invalid scenario in the middle that is reported when it is
    reached."""
    late = invalid_file("too-new.toml", TOO_NEW)
    return "run", *CASES[:HALF], late, *CASES[HALF:], "--provenance", "--json"


def several_replays() -> tuple[object, ...]:
    """Return a command about many recordings, with an invalid file in the middle."""
    late = invalid_file("late.json", "{}")
    return "replay", *TRACES[:HALF], late, *TRACES[HALF:], "--json"


def several(name: str, line: Callable[[], tuple[object, ...]], key: str, reached: str, code: int) -> None:
    """Add the faults of a command that works on several files. ``reached``: part of the message about the file in the
    middle."""
    def begun() -> Victim:
        return Victim(*line(), "-j", 2).until(reached)

    def printed(ground: Ground, end: End) -> str:
        whole = undisturbed(*line())[key]
        found = json.loads(end.out)[key]
        ground.expect("results", found, [one for one in whole if one in found])
        ground.expect("some of them", 0 < len(found) < len(whole), True)
        return f"{len(found)} of {len(whole)} results printed"

    @fault(f"Ctrl-C in {name}")
    def interrupted(ground: Ground) -> Any:
        end = begun().signal_all(signal.SIGINT).end()
        return [end], [exits.INTERRUPTED], printed(ground, end)

    @fault(f"SIGTERM to {name}")
    def terminated(ground: Ground) -> Any:
        end = begun().signal(signal.SIGTERM).end()
        return [end], [143], printed(ground, end)

    @fault(f"SIGKILL of {name}")
    def killed(ground: Ground) -> Any:
        return [begun().signal(signal.SIGKILL).end()], [-9], "no output expected"

    @fault(f"SIGKILL of a worker of {name}")
    def bereft(ground: Ground) -> Any:
        end = begun().kill_worker().end()
        ground.expect("result", json.loads(end.out), undisturbed(*line()))
        return [end], [code], "all: another worker did its work"


several("run", several_runs, "runs", "is not in", exits.BROKEN)
several("replay", several_replays, "traces", "late.json", exits.BAD_INPUT)


def possible(name: str = "") -> str:
    """Return why the fault cannot be injected here, "" if it can."""
    if sys.platform != "linux":
        return "needs /proc and /dev/full"
    if name == "disk full during a campaign" and subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
        return "needs a separate mount namespace for a small disk"
    return ""
