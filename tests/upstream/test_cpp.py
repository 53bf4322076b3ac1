"""Scanner for C++ files: symbols found in a file, and regions of marks. The snippets were written for this test."""

from __future__ import annotations

import pytest

from tests.upstream.cpp import mask, normal, regions, symbols

FILE = r'''
#define LIMIT 3 \
    + 1
namespace a {
static int plain(int x) { return x ? '{' : '}'; }      // }}}
struct box : base {
    int size = 0;
    box(int n) : base(n), size{n}, rest{ {1, 2} } { use("}"); }
    ~box();
    bool operator==(const box & o) const { return size == o.size; }
    template <typename T, int N = (1 > 0)> std::function<void(int)> get(T t) const { return R"x( } )x"; }
};
/* } */
box::~box() {
#if 0
    }
#else
    for (int i = 0; i < 2; ++i) { if (i) { go(); } }
#endif
}
#ifdef WIDE
wide::text read(file & f) { return f.read<wide>(1'000'000); }
#else
text read(file & f) { if (f) { return f.read(); }
}
#endif
static const std::map<int, std::string> NAMES = {
    { 1, "one" }, { 2, "{" },
};
enum class kind { small, large };
__attribute__((noinline)) void attributed() {}
}
extern "C" { int in_c(void) { return 0; } }
'''


def found():
    return {one.name: one for one in symbols(FILE)}


def test_all_definitions_are_found():
    assert {name: one.kind for name, one in found().items()} == {
        "LIMIT": "macro", "a::plain": "function", "a::box": "type", "a::box::box": "function",
        "a::box::operator==": "function", "a::box::get": "function", "a::box::~box": "function", "a::read": "function",
        "a::NAMES": "constant", "a::kind": "type", "a::attributed": "function", "in_c": "function",
    }


def test_bodies_are_whole_and_lines_are_right():
    one = found()
    assert one["a::plain"].text == "static int plain(int x) { return x ? '{' : '}'; }"
    assert one["a::box::box"].text.endswith('{ use("}"); }')
    assert one["a::box::~box"].text.endswith("#endif\n}")
    assert [FILE.splitlines()[one[name].line - 1].strip()[:12] for name in ("a::plain", "a::NAMES", "LIMIT")] == [
        "static int p", "static const", "#define LIMI"
    ]


def test_a_type_is_compared_without_its_functions():
    text = found()["a::box"].text
    assert "int size = 0;" in text and "use" not in text and "~box();" in text


def test_the_first_branch_is_kept_unless_its_condition_is_0():
    assert found()["a::read"].text.startswith("wide::text read")
    assert mask("#if 0\n{\n#elif B\n{\n#else\n}\n#endif\n").split() == ["{"]
    assert mask("#ifdef A\n{\n#if B\n{\n#endif\n#else\n}}\n#endif").split() == ["{", "{"]


def test_comments_and_white_space_are_ignored():
    assert normal("a // x\n  b /* { */ c") == "a b c"
    assert normal('a = " // "; ') == 'a = " // ";'
    assert normal("f(1)") != normal("f(2)")


BODY = """void f() {
    int first = 1;
    for (int i = 0; i < n; i++) {
        use(i);
        keep(i); // kept
    }
    const auto it = std::find_if(all.rbegin(), all.rend(), [&](int x) { return x > first; });
    if (it) { go(); } else { stop(it); }
    switch (k) { case K_SAVE: { save(); } break; }
    last();
}"""


@pytest.mark.parametrize("mark, texts", [
    ("int first", ["int first = 1;"]),
    ("i < n", ["for (int i = 0; i < n; i++)"]),
    ("i < n {", ["for (int i = 0; i < n; i++) {\n        use(i);\n        keep(i); // kept\n    }"]),
    ("kept {", []),
    ("keep", ["keep(i);"]),
    ("rbegin", ["const auto it = std::find_if(all.rbegin(), all.rend(), [&](int x)"]),
    ("rbegin {", ["const auto it = std::find_if(all.rbegin(), all.rend(), [&](int x) { return x > first; }"]),
    ("x > first", ["return x > first;"]),
    ("else {", ["else { stop(it); }"]),
    ("case K_SAVE {", ["case K_SAVE: { save(); }"]),
    ("last", ["last();"]),
    ("nowhere", []),
])
def test_the_region_of_a_mark(mark, texts):
    said = [BODY[start:stop].strip() for start, stop in regions(BODY, mark)]
    assert said == texts if texts else not any("save" in text for text in said)
