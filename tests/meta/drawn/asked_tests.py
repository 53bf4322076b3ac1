"""Plug-in for pytest: runs the tests that the file WISH asks for, and writes failing ones into the file that it names.

A test that takes too long ends its process. The file named "running" has the running test of a process without workers.
"""

import faulthandler
import json
import os
from pathlib import Path

PATIENCE = 180         # seconds for a test
WISH = json.loads(Path(os.environ["WISH"]).read_text())
NOTES = {"is_worker": False, "stacks": open(os.devnull, "w")}      # noqa: SIM115


def pytest_configure(config):
    NOTES["is_worker"] = hasattr(config, "workerinput")


def pytest_collection_modifyitems(config, items):
    only = None if WISH["only"] is None else set(WISH["only"])
    never = set(WISH["never"])
    kept, left = [], []
    for item in items:
        is_asked = only is None or item.nodeid in only or item.nodeid.partition("::")[0] in only
        (kept if is_asked and item.nodeid not in never else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def pytest_runtest_logstart(nodeid):
    if not NOTES["is_worker"]:
        Path(WISH["running"]).write_text(nodeid, "utf-8")


def pytest_runtest_setup():
    faulthandler.dump_traceback_later(PATIENCE, exit=True, file=NOTES["stacks"])


def pytest_runtest_logreport(report):
    if report.failed:
        _note(report.nodeid)


def pytest_collectreport(report):
    if report.failed:
        _note(report.nodeid)


def _note(test):
    if not NOTES["is_worker"]:
        with open(WISH["failed"], "a", encoding="utf-8") as file:
            file.write(f"{test}\n")
