"""Setup of all tests: a single BLAS thread (as on the command line), cached byte code, deterministic Hypothesis draws,
and collection of only those files that can hold a selected test, by each process only of its share."""

import ctypes
import gc
import os
import re
import signal
import sys
from pathlib import Path

if sys.dont_write_bytecode and sys.prefix != sys.base_prefix:
    # Otherwise every process of the suite, and each of the hundreds of commands that it starts, compiles all modules.
    # Byte code is stored below the environment: PYTHONDONTWRITEBYTECODE asks for none in the tree.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = os.path.join(sys.prefix, "byte-code")
    sys.dont_write_bytecode = False

from cachesim.base.console import WIDTH, OutputOptions
from cachesim.base.limits import lift
from cachesim.cli.main import ONE_THREAD

# Most objects here are tests, which stay until the end: to look through them again and again takes a tenth of the time
gc.disable()

# A shell ignores SIGINT in background jobs, nohup ignores SIGHUP; processes that the tests start would inherit it
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)

for name in ONE_THREAD:
    os.environ.setdefault(name, "1")       # before anything imports NumPy

import pytest  # noqa: E402
from _pytest.runner import runtestprotocol  # noqa: E402
from hypothesis import settings  # noqa: E402

from tests.drawn_values import leave_out_constants, register_generator  # noqa: E402
from tests.joined_cases import joined  # noqa: E402
from tests.shares import files_below, shares  # noqa: E402

settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")
leave_out_constants()
register_generator()


DEMANDED = re.compile(r"(long|slow|meta|browser)\b")
SHARE = pytest.StashKey[frozenset[Path]]()
SESSION = pytest.StashKey[pytest.Session]()
SHARED_OUT = pytest.StashKey[bool]()
GROWTH = 32 << 20                        # bytes by which a test may increase resident memory until garbage is collected
STATM = Path("/proc/self/statm")
TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None     # glibc alone has it


def pytest_ignore_collect(collection_path, config):
    """Skip a file that has no selected test, or that another process runs."""
    if collection_path.suffix != ".py":
        return None
    share = config.stash.get(SHARE, None)
    if share is not None and collection_path.name.startswith("test_") and collection_path not in share:
        return True
    return True if lacks_selected_tests(collection_path, config.getoption("markexpr")) else None


def lacks_selected_tests(path, chosen):
    """True if the marker expression excludes the mark of the whole file, or demands one that the file lacks."""
    text = path.read_text("utf-8")
    whole = re.search(r"^pytestmark = (?:\[\s*)?pytest\.mark\.(long|slow|meta|browser)\b", text, re.M)
    if whole and f"not {whole[1]}" in chosen:
        return True
    demanded = DEMANDED.match(chosen)
    marks = {"long": ("mark.long", "mark.part(")}.get(demanded[0], (f"mark.{demanded[0]}",)) if demanded else ()
    return bool(demanded) and not any(mark in text for mark in marks)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the cases of a test with ``part(n)`` as long, except the first of every n."""
    seen = {}
    for item in items:
        part = item.get_closest_marker("part")
        if part is None:
            continue
        test = item.nodeid.partition("[")[0]
        place = seen[test] = seen.get(test, -1) + 1
        if place % part.args[0]:
            item.add_marker(pytest.mark.long)


@pytest.hookimpl(trylast=True, specname="pytest_collection_modifyitems")
def pytest_join_cases(config, items):
    """Join the cases of a test in a process that runs its share of all files, unless cases are selected by name."""
    if SHARE in config.stash and not config.getoption("keyword"):
        items[:] = joined(items, after_each)


def pytest_sessionstart(session):
    session.config.stash[SESSION] = session


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Tell a process which files it runs, if whole folders are asked for. The files of a marked selection are few, and
    last so differently that each process fetches the next one when it has finished one."""
    if node.config.getoption("dist") != "loadfile" or DEMANDED.match(node.config.getoption("markexpr")):
        return
    chosen = node.config.getoption("markexpr")
    found = [file for file in files_below([Path(name).resolve() for name in node.config.args])
             if not lacks_selected_tests(file, chosen)]  # fmt: skip
    if found:
        number = node.workerinput["workercount"]
        mine = shares(found, number)[int(node.workerinput["workerid"].removeprefix("gw")) % number]
        node.workerinput["share"] = [str(file) for file in mine]
        node.config.stash[SHARED_OUT] = True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each process the files that it has collected, or, in a marked selection, one file after the other."""
    if config.stash.get(SHARED_OUT, False):
        from tests.share_scheduling import ShareScheduling

        return ShareScheduling(config, log, config.stash[SESSION])
    return None


def pytest_collection_finish():
    """Exempt the tests themselves, which stay until the end, from garbage collection."""
    gc.freeze()


def pytest_runtest_teardown(item, nextitem):
    """Restore output options, limits and memory. After the last test of a folder, forget the runs and syntax trees that
    its modules keep, and exempt what other modules keep from garbage collection."""
    if nextitem is None or nextitem.path.parent != item.path.parent:
        forget_results(item.path.parent.relative_to(item.config.rootpath).as_posix().replace("/", "."))
    after_each()


def after_each():
    """Restore the output options and limits, which the command line sets for its whole process. Collect garbage if
    resident memory increased much: a run that refers to itself may hold large arrays in few objects, and the collector
    counts objects. What is free then goes back to the system: the C library keeps pages between those in use, which
    were a third of a process."""
    lift({})
    OutputOptions.quiet, OutputOptions.colour, OutputOptions.columns = False, "auto", WIDTH
    if resident() > Memory.after_collection + GROWTH:
        gc.collect()
        gc.freeze()
        if TRIM is not None:
            TRIM(0)
        Memory.after_collection = resident()


class Memory:
    """Resident memory of this process after the last garbage collection of a large test [bytes]."""

    after_collection = 0


def resident():
    """Return the resident memory of this process [bytes]; 0 on a system that does not tell."""
    return int(STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE") if STATM.exists() else 0


def forget_results(package):
    """Clear the caches of the functions in the test modules of a package."""
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{package}."):
            for value in list(vars(module).values()):
                if callable(getattr(value, "cache_clear", None)) and value.__module__ == name:
                    value.cache_clear()


class OneReport:
    """Run a test as pytest does, and send the main process one report of a passed test, not one each of its setup, call
    and teardown: it shares two cores with the processes that test."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        for report in runtestprotocol(item, nextitem=nextitem, log=False):
            if report.when == "call" or not report.passed:
                item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        if "share" in config.workerinput:
            config.stash[SHARE] = frozenset(map(Path, config.workerinput["share"]))
        config.pluginmanager.register(OneReport())


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable(report):
    """Leave the keywords, which no summary prints, out of the reports of passed tests: many thousands are sent to the
    main process."""
    data = yield
    if data is not None and report.passed and "keywords" in data:
        data["keywords"] = {}
    return data
