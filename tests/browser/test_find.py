"""The search box of the site in a browser, on a page without a server: which page it names first."""

from __future__ import annotations

import pytest

from cachesim.pages.site.paths import line_path
from cachesim.pages.site.scenario_pages import known_scenarios
from cachesim.pages.site.site_sources import HERE, entries_script, site_pages
from cachesim.tools.server_logs.lines.recognise import recognise
from tests.browser.conftest import opening

pytestmark = pytest.mark.browser
FORM = HERE / "templates" / "sidebar" / "find.html"
SCRIPTS = '<script src="entries.js"></script><script src="find.js"></script>'
LINES = (
    "slot update_slots: id  0 | task 0 | forcing full prompt re-processing due to lack of cache data (likely due to "
    "SWA or hybrid/recurrent memory, see https://github.com/ggml-org/llama.cpp/pull/13194#issuecomment-2868343055)",
    "slot get_availabl: id  0 | task -1 | selected slot by LCP similarity, sim_best = 0.357 (> 0.100 thold), "
    "f_keep = 0.588",
    "selected slot by LRU, t_last = 12345",
    "slot update_slots: id  3 | task 120 | erased invalidated context checkpoint (pos_min = 1023, pos_max = 1023, "
    "n_tokens = 1024, n_swa = 0, pos_next = 0, size = 62.813 MiB)",
    "srv  update:  - cache state: 2 prompts, 412.100 MiB (limits: 8192.000 MiB, 4096 tokens, 90000 est)",
    "new prompt, n_ctx_slot = 131072, n_keep = 0, task.n_tokens = 48866",
    "(EngineCore_0 pid=123) INFO 11-20 10:00:00 [kv_cache_utils.py:1087] GPU KV cache size: 1,234,560 tokens",
    "INFO 11-20 10:00:10 [loggers.py:123] Engine 000: Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: "
    "5.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.2%, Prefix cache hit rate: 45.0%",
    "[2025-11-20 10:00:00] Prefill batch. #new-seq: 1, #new-token: 512, #cached-token: 0, token usage: 0.01, "
    "#running-req: 0, #queue-req: 0,",
    'INFO [    batch_pending_prompt] kv cache rm [p0, end) | tid="137313738805248" timestamp=1783304164 id_slot=0 '
    "id_task=3817 p0=50376",
    "slot apply_checkp: id  0 | task 11266 | forcing full prompt re-processing due to lack of cache data (likely due "
    "to SWA, see https://github.com/ggml-org/llama.cpp/pull/13194#issuecomment-2868343055)",
    "INFO [interface.py:939] Padding mamba page size by 0.88% to ensure that mamba page size and attention page size "
    "are exactly equal.",
    "new fill batch. #seq: 1. #cached_token: 757. #new_token: 1. #remaining_req: 4. #running_req: 2. "
    "tree_cache_hit_rate: 80.83%.",
    "prompt eval time =     123.45 ms /   512 tokens (    0.24 ms per token,  4147.43 tokens per second)",
)
FLAGS = {
    "--cache-ram 8192": "flags/llama_cpp-cache_ram",
    "-np": "flags/llama_cpp-parallel",
    "--swa-full": "flags/llama_cpp-swa_full",
    "--enable-prefix-caching": "flags/vllm-enable_prefix_caching",
    "--num-gpu-blocks-override": "flags/vllm-num_gpu_blocks",
    "LC-PC-LOAD.TAKE": "rules/LC-PC-LOAD.TAKE",
    "pos_min": "terms/pos_min",
    "ggml-org/llama.cpp#24143": "reports/LC-31",
    "https://github.com/ggml-org/llama.cpp/issues/24143": "reports/LC-31",
    "#24143": "reports/LC-31",
    "llama-24143-entry-removed-dense": "scenarios/llama-24143-entry-removed-dense",
    "b11549": "releases/llama_cpp-b11549",
    "LLAMA_ARG_CACHE_RAM=0": "flags/llama_cpp-cache_ram",
    "llama-server -m x.gguf -ngl 99 --cache-ram 8192": "flags/llama_cpp-cache_ram",
    "-ngl 99": "flags/llama_cpp-other-no-effect",
    "--speculative-config": "flags/vllm-speculative_method",
}


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("find")
    (folder / "entries.js").write_text(entries_script(site_pages(known_scenarios())), "utf-8")
    (folder / "find.js").write_text((HERE / "static" / "find.js").read_text("utf-8"), "utf-8")
    form = FORM.read_text("utf-8").replace("{{ pathto('search') }}", "search.html")
    html = folder / "index.html"
    html.write_text(f"<!doctype html><title>find</title>{form}{SCRIPTS}")
    with opening(browser) as open_page:
        yield open_page(html)


def first_answer(page, typed):
    page.locator("input").fill(typed)
    return page.locator(".found a").first.get_attribute("href")


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_a_log_line_leads_to_the_page_of_the_kind_that_explain_recognises(page, line):
    known = recognise(line)[0]
    assert first_answer(page, line) == f"./{line_path(known.engine, known.read.line.ev)}.html"


@pytest.mark.parametrize(("typed", "path"), FLAGS.items(), ids=FLAGS.values())
def test_a_name_leads_to_its_page(page, typed, path):
    assert first_answer(page, typed) == f"./{path}.html"


def test_words_that_no_page_has_as_a_name_lead_to_the_search_in_the_text(page):
    assert first_answer(page, "zzz nowhere") == "./search.html?q=zzz%20nowhere"


def test_what_is_typed_is_no_markup(page):
    page.locator("input").fill("<img src=x onerror=alert(1)>")
    assert page.locator(".found img").count() == 0 and page.said == []
