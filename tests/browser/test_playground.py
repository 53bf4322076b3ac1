"""Tests of the playground in a browser: what is typed is simulated, kept in the address, and copied."""

from __future__ import annotations

import shlex

import pytest

from tests.browser.conftest import SIZES, opening
from tests.browser.test_as_used import CUT, drawn, printed, run_numbers

pytestmark = pytest.mark.browser
LINE = "S40.A60>r4/B70/S.C25/S.A.D5"


@pytest.fixture
def page(browser, playground):
    with opening(browser) as open_page:
        one = open_page(playground)
        one.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=playground.rstrip("/"))
        yield one
        assert one.said == []
        assert [url for url in one.asked if not url.startswith((playground, "data:"))] == []


def typed(page, **fields):
    """Fill fields of the form and wait until their case was simulated."""
    for name, value in fields.items():
        field = page.locator(f"#{name}")
        field.select_option(value) if name in ("profile", "other", "example") else field.fill(value)
    settled(page)


def settled(page):
    """Wait until the case in the form was simulated."""
    page.wait_for_function("""() => {
        const { profiles, ...shown } = JSON.parse(document.body.dataset.shown || "{}");
        const other = $('other').value;
        return ["line", "model", "flags"].every(name => shown[name] === $(name).value)
            && profiles[0] === $('profile').value
            && (other === "every engine" ? profiles.length > 2 : (profiles[1] || "") === other);
    }""")


def test_what_is_typed_is_simulated_and_its_numbers_are_those_of_json(page):
    for profile, other, model, flags in (("llama_cpp@b10587", "llama_cpp@b11549", "GGGA", "-np 2 --cache-ram 100"),
                                         ("mlx_lm@0.32.2", "", "A", "")):  # fmt: skip
        typed(page, line=LINE, profile=profile, model=model, flags=flags, other=other)
        more = f"-p {other}" if other else ""
        data = printed(f"run {LINE} -p {profile} {more} --model {model} {flags}")
        assert dict(drawn(page)) == {run["profile"]: run_numbers(run) for run in data["runs"]}
        assert page.locator("#problem").inner_text() == ""


def test_a_former_picture_is_marked_while_another_case_is_simulated(page):
    typed(page, line=LINE, profile="llama_cpp@b11549", model="GGGA", flags="", other="")
    held = []
    page.route("**/run", lambda route: held.append(route))
    page.locator("#line").fill("S40.A60>r4/B71")
    page.wait_for_selector("#result.old[aria-busy=true]")
    assert page.locator("#notes").inner_text() == "simulating, at most a minute; the picture is that of the former case"
    assert page.locator("#copies button:enabled").all_inner_texts() == ["copy link"]
    assert page.locator("#problem").inner_text() == ""
    [waiting] = held
    waiting.continue_()
    settled(page)
    assert page.locator("#result.old, #result[aria-busy]").count() == 0
    assert "simulating" not in page.locator("#notes").inner_text()
    assert page.locator("#copies button:enabled").count() == 3
    assert len(drawn(page)[0][1]) == 2


def test_every_engine_is_compared_at_once(page):
    typed(page, line=LINE, profile="llama_cpp@b11549", model="GGGA", flags="", other="")
    page.locator("#other").select_option("every engine")
    page.wait_for_selector(".engines")
    assert [name.split("@")[0] for name, _ in drawn(page)] == ["llama_cpp", "ik_llama", "mlx_lm", "vllm", "sglang"]
    assert page.locator(".engines .bar").count() == 4 * 5
    assert "p=vllm%40" in page.url
    page.reload()
    page.wait_for_selector(".engines")
    assert page.locator("#other").input_value() == "every engine"


def test_only_the_last_of_many_changes_is_shown(page):
    line = page.locator("#line")
    line.fill("")
    line.press_sequentially(LINE)
    typed(page, other="")
    assert len(drawn(page)) == 1 and len(drawn(page)[0][1]) == 4
    assert sum(url.endswith("/run") for url in page.asked) < len(LINE) + 2


@pytest.mark.parametrize(("line", "below"), [
    ("S40.A60/S..B5", "."), ("S40.A60/S.A.B5!!", "!"), ("A5/" * 40 + "x!!", "!"),
])  # fmt: skip
def test_an_error_points_to_its_column_and_the_last_result_stays(page, line, below):
    before = drawn(page)
    typed(page, line=line)
    text, arrow = page.locator("#problem pre").inner_text().split("\n")
    assert arrow.endswith("^") and text[len(arrow) - 1] == below
    assert page.locator("#line").get_attribute("aria-invalid") == "true" and drawn(page) == before
    assert page.evaluate(CUT) == [] and page.locator("#copies button:enabled").count() == 1
    typed(page, line=LINE)
    assert page.locator("#copies button:enabled").count() == 3
    assert page.locator("#line").get_attribute("aria-invalid") == "false"
    assert page.locator("#problem").inner_text() == ""


def test_the_address_contains_the_case(page, browser, playground):
    typed(page, line=LINE, model="W8 G A", flags="-np 2 -kvu", profile="llama_cpp@b9518", other="")
    with opening(browser) as open_page:
        again = open_page(page.url)
        assert [again.locator(f"#{name}").input_value() for name in ("line", "model", "flags", "profile", "other")] == [
            LINE, "W8 G A", "-np 2 -kvu", "llama_cpp@b9518", "",
        ]  # fmt: skip
        assert drawn(again) == drawn(page) and again.locator("#example").input_value() == ""
        odd = open_page(f"{playground}?line=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E&p=my_rules.py&p=%3Cb%3E&model=%3Cb%3E")
        assert odd.locator("img, b").count() == 0 and odd.locator("#problem p").count() == 1
        assert odd.said == []


def test_an_example_fills_the_form(page):
    name = "ik-1889-no-refusal-hybrid"
    typed(page, example=name)
    assert page.locator("#profile").input_value().startswith("ik_llama@")
    assert page.locator("section.run").count() == 1 + bool(page.locator("#other").input_value())
    typed(page, line=LINE)
    assert page.locator("#example").input_value() == ""


def test_a_case_is_copied_as_a_link_a_command_and_a_scenario(page, tmp_path):
    typed(page, line=LINE, profile="llama_cpp@b10587", other="llama_cpp@b11549", model="GA", flags="-np 2")
    copied = {}
    for what in ("link", "command", "scenario"):
        page.locator(f"#as-{what}").click()
        page.wait_for_function("what => $('copied').textContent.startsWith(what)", arg=what)
        copied[what] = page.evaluate("() => navigator.clipboard.readText()")
    assert copied["link"] == page.url
    (tmp_path / "my-case.toml").write_text(copied["scenario"])
    for words in (shlex.split(copied["command"])[1:], ["run", str(tmp_path / "my-case.toml")]):
        data = printed(shlex.join(words))
        assert {run["profile"]: run_numbers(run) for run in data["runs"]} == dict(drawn(page))


def test_other_rule_sets_of_the_engine_are_offered_before_the_newest_of_others(page):
    typed(page, profile="mlx_lm@0.32.2", model="A", flags="", other="")
    offered = page.locator("#other option").evaluate_all("all => all.map(one => one.value)")
    assert offered[:2] == ["", "every engine"] and offered[2].startswith("mlx_lm@")
    others = [name for name in offered[2:] if not name.startswith("mlx_lm@")]
    assert others == offered[-4:] and len({name.partition("@")[0] for name in others}) == 4
    assert "mlx_lm@0.32.2" not in offered and page.locator("#other").input_value() == ""


@pytest.mark.parametrize("size", SIZES)
def test_a_case_is_typed_and_walked_by_keyboard(browser, playground, size):
    with opening(browser) as open_page:
        page = open_page(playground, size)
        page.locator("#line").focus()
        page.keyboard.press("Control+A")
        page.keyboard.type(LINE)
        page.keyboard.press("Enter")
        settled(page)
        assert page.locator("#line").input_value() == LINE
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("() => document.activeElement.type") == "range":
                break
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        assert page.locator("input[type=range]").input_value() == "1" and page.evaluate(CUT) == []
