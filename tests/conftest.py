"""Setup of all tests: a single BLAS thread (as on the command line), cached byte code, deterministic Hypothesis draws,
rare garbage collection, and collection of only those files that can hold a selected test."""

import gc
import os
import re
import sys

if sys.dont_write_bytecode and sys.prefix != sys.base_prefix:
    # Otherwise every process of the suite, and each of the hundreds of commands that it starts, compiles all modules.
    # Byte code is stored below the environment: PYTHONDONTWRITEBYTECODE asks for none in the tree.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = os.path.join(sys.prefix, "byte-code")
    sys.dont_write_bytecode = False

from cachesim.base.console import WIDTH, OutputOptions
from cachesim.base.limits import lift
from cachesim.cli.main import ONE_THREAD

# Most objects here are tests, which stay until the end: to look through them takes a tenth of the time
gc.disable()
gc.set_threshold(500_000, 20, 100)

for name in ONE_THREAD:
    os.environ.setdefault(name, "1")       # before anything imports NumPy

import pytest  # noqa: E402
from _pytest.runner import runtestprotocol  # noqa: E402
from hypothesis import settings  # noqa: E402

TOGETHER = {f"tests/{file}.py": f"tests/{first}.py" for first, files in {
    "scenarios/test_corpus": ("scenarios/test_mlx_lm_entries", "scenarios/test_sentences",
                              "scenarios/test_sentences_mlx", "scenarios/test_shown_in"),
    "house/test_checks_bite": ("house/test_house", "house/test_prose", "house/test_words", "unit/test_versions"),
}.items() for file in files}  # fmt: skip
settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")


def pytest_ignore_collect(collection_path, config):
    """Skip a file if the marker expression excludes the mark of the whole file, or demands one that the file lacks."""
    if collection_path.suffix != ".py":
        return None
    chosen, text = config.getoption("markexpr"), collection_path.read_text("utf-8")
    whole = re.search(r"^pytestmark = (?:\[\s*)?pytest\.mark\.(long|slow|meta|browser)\b", text, re.M)
    if whole and f"not {whole[1]}" in chosen:
        return True
    demanded = re.match(r"(long|slow|meta|browser)\b", chosen)
    marks = {"long": ("mark.long", "mark.part(")}.get(demanded[0], (f"mark.{demanded[0]}",)) if demanded else ()
    return True if demanded and not any(mark in text for mark in marks) else None


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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give files that look at the same runs, or at the same syntax trees, to one process, which keeps them."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class TogetherScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return TOGETHER.get(file, file)

    return TogetherScheduling(config, log)


def pytest_collection_finish():
    """Collect garbage from here on, without looking again and again through the tests themselves."""
    gc.freeze()
    gc.enable()


def pytest_runtest_teardown():
    """Restore the output options and limits, which the command line sets for its whole process."""
    lift({})
    OutputOptions.quiet, OutputOptions.colour, OutputOptions.columns = False, "auto", WIDTH


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """After the last test of a file, exempt what its caches keep, such as syntax trees and runs, from garbage
    collection, which would otherwise look through all of it again and again."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return result


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
        config.pluginmanager.register(OneReport())


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable(report):
    """Leave the keywords, which no summary prints, out of the reports of passed tests: many thousands are sent to the
    main process."""
    data = yield
    if data is not None and report.passed and "keywords" in data:
        data["keywords"] = {}
    return data
