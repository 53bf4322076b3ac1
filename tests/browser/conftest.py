"""Fixtures: a browser for all tests (Debian's, by its path). Nothing is downloaded, and the network is not used."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.browser.pages import PAGES, Pages
from tests.shared import ROOT

BROWSER = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
SIZES = {"wide": (1280, 900), "narrow": (390, 800)}


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    return Pages(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="session")
def browser():
    if not os.path.exists(BROWSER):
        pytest.exit(f"no chromium at {BROWSER} (install Debian's chromium, or use CHROMIUM=PATH make browser)", 2)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield one
        one.close()


@pytest.fixture(scope="session")
def playground():
    """Return the address of a playground that is served for all tests."""
    words = [sys.executable, "-m", "cachesim", "playground", "--json", "-q"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        yield json.loads(process.stdout.readline())["url"]
        process.send_signal(signal.SIGINT)


@pytest.fixture
def opened(browser, files):
    """Return a function that opens a page: its name, "wide" or "narrow", "light" or "dark". ``page.said``: console
    messages. ``page.asked``: network requests."""
    with opening(browser) as open_file:
        yield lambda name, *given, **more: open_file(files[name], *given, **more)


@contextmanager
def opening(browser):
    """Return a function that opens a file in a new context and records its console, errors and requests."""
    contexts = []

    def open_file(file, size="wide", scheme="light", anchor="", script=True):
        width, height = SIZES[size]
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme,
                                      java_script_enabled=script)  # fmt: skip
        contexts.append(context)
        page = context.new_page()
        page.said, page.asked = [], []
        page.on("console", lambda one: page.said.append(one.text))
        page.on("pageerror", lambda one: page.said.append(str(one)))
        page.on("request", lambda one: page.asked.append(one.url))
        address = str(file)
        page.goto(f"{address if address.startswith('http:') else f'file://{address}'}{anchor}")
        if script and address.startswith("http:"):
            page.wait_for_function("() => document.body.dataset.shown")
        elif script:
            page.wait_for_function("() => !document.querySelector('.timeline') || 'ready' in document.body.dataset")
        return page

    yield open_file
    for context in contexts:
        context.close()


def pytest_generate_tests(metafunc):
    marked = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "name" in metafunc.fixturenames and "name" not in marked:
        metafunc.parametrize("name", list(PAGES))
