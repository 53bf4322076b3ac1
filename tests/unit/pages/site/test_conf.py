"""Pages outside the table of contents share their navigation, whose links are relative, with their folder alone."""

from __future__ import annotations

import pytest

from cachesim.pages.site.conf import setup


class App:
    """Sphinx, as far as ``setup`` asks for it: its configuration and its environment, too."""

    def __init__(self):
        self.config = self.env = self
        self.root_doc, self.toctree_includes = "index", {"index": ["guide/start"]}
        self.heard = {}

    def connect(self, event, handler, priority=500):
        self.heard[event] = handler

    def navigation(self, page, **options):
        """Return the navigation of a page, and how often Sphinx built it."""
        built = []

        def toctree(**asked):
            built.append(page)
            return f"{'../' * page.count('/')}guide/start.html {sorted(asked.items())}"

        context = {"toctree": toctree}
        self.heard["html-page-context"](self, page, "page.html", context, None)
        return context["toctree"](**options), len(built)


@pytest.fixture
def app():
    setup(made := App())
    return made


def test_pages_of_a_folder_share_a_navigation_whose_links_hold_for_them(app):
    assert app.navigation("rules/llama_cpp/one") == ("../../guide/start.html []", 1)
    assert app.navigation("rules/llama_cpp/two") == ("../../guide/start.html []", 0)
    assert app.navigation("terms/one") == ("../guide/start.html []", 1)
    assert app.navigation("terms/two", collapse=True) == ("../guide/start.html [('collapse', True)]", 1)


@pytest.mark.parametrize("page", ["index", "guide/start"])
def test_a_listed_page_has_a_navigation_of_its_own(app, page):
    assert [app.navigation(page)[1] for _ in range(2)] == [1, 1]
