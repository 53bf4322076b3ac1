// The slider of a page: the memory at each event, the chosen request, printing. A page holds this file without comment
// lines and indentation, so no template literal may span lines.
// k is the number of an event in one run's log, p a position of the slider: one k per run. r3 and p1-r3 are the anchors
// of request 3 in the first and the second run, e5 and p1-e5 those of event 5.
"use strict";

// Return the element with an id, and all elements that match a selector.
const $ = (id) => document.getElementById(id);
const all = (what, of = document) => [...of.querySelectorAll(what)];

const NS = "http://www.w3.org/2000/svg";
const tools = $("tools");
const at = $("at");

// data: what told.py packs into #walk; runs: a Run for each of its runs; places: the numbers k of each position.
let data = { forms: [], runs: [] };
let runs = [];
let places = [];
let firstDifference = -1;
let zoom = 1;

// Return the data of a page: base64, deflated JSON.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

// Return a new SVG element, appended to its parent if there is one.
function svg(name, attributes, parent) {
  const e = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (parent) parent.append(e);
  return e;
}

// Return where the last pair [event, value] at or before event k begins in a flat, sorted list; negative: no pair.
function index(list, k) {
  let lo = 0;
  let hi = list.length / 2;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (list[2 * mid] <= k) lo = mid + 1;
    else hi = mid;
  }
  return 2 * (lo - 1);
}

// Return the value at event k of a flat list of pairs, undefined before the first.
function last(list, k) {
  const i = index(list, k);
  return i < 0 ? undefined : list[i + 1];
}

// Turn the distances between events, in a flat list of pairs, into numbers of events.
function summed(list) {
  for (let i = 2; i < list.length; i += 2) list[i] += list[i - 2];
}

// Give a group a tooltip, and return the group.
function say(group, text) {
  svg("title", {}, group).textContent = text;
  return group;
}

// One run: its section of the page, its drawing, and what it held at each event.
class Run {
  constructor(d, number) {
    [d.rows, d.entries, ...Object.values(d.slots).flatMap(Object.values)].forEach(summed);
    this.d = d;
    this.mark = number ? "p" + number + "-" : "";
    this.section = all("section.run")[number];
    this.log = d.log ? d.log.split("\n") : [];
    this.n = this.log.length;
    this.k = this.n;
    this.live = new Map();
    this.state = [];
    this.rows = d.begins.map((_, i) => $(this.mark + "r" + i));
    this.draw = this.section.querySelector(".draw");
    this.svg = this.draw.querySelector("svg");
    this.cache = this.svg.querySelector(".cache");
    const clip = svg("clipPath", { id: this.mark + "clip" }, this.svg.querySelector("defs"));
    this.clip = svg("rect", { x: 0, y: 0, width: d.x[0], height: 0 }, clip);
    this.now = svg("g", { class: "now" }, this.svg);
    this.head = this.svg.querySelector(".head");
    const [top, under] = d.head;
    this.head.prepend(svg("rect", { class: "back", x: 0, y: top, width: d.width[1], height: under - top }));
    this.svg.append(this.head);
    this.draw.addEventListener("scroll", () => this.stay());
  }

  // Keep the axis and the names of the requests in view while the drawing scrolls.
  stay() {
    const x = this.draw.scrollLeft / zoom;
    const y = this.draw.scrollTop / zoom;
    this.head.classList.toggle("moved", y > 0);
    this.head.setAttribute("transform", "translate(0 " + y + ")");
    if (x > 0 && !this.names) this.name();
    if (!this.names) return;
    this.names.classList.toggle("moved", x > 0);
    this.names.setAttribute("transform", "translate(" + x + " 0)");
  }

  // Copy the names of the requests, to stand at the left edge; only the numbers where the drawing is narrow.
  name() {
    this.names = svg("g", { class: "names", "aria-hidden": "true" });
    const short = this.draw.clientWidth < 600;
    const some = this.rows.filter((g) => g).map((g) => g.querySelector(".name").cloneNode(true));
    if (short) {
      some.forEach((g) =>
        g.replaceChildren(
          ...all("text", g)
            .slice(0, 1)
            .map((t) => {
              t.textContent = t.textContent.split(" ")[0];
              return t;
            }),
        ),
      );
    }
    const most = Math.max(...some.map((g) => g.textContent.length));
    const wide = short ? 16 + 7.3 * most : this.d.names - 4;
    svg(
      "rect",
      { class: "back", x: 0, y: this.d.head[1], width: wide, height: this.rows.length * this.d.step },
      this.names,
    );
    this.names.append(...some);
    this.head.before(this.names);
  }

  // Return the line of the log at event k.
  text(k) {
    if (k >= this.n) return "the end";
    const [form, ...numbers] = this.log[k].split(" ");
    let i = 0;
    return data.forms[form].replace(/\t/g, () => numbers[i++]);
  }

  // Return the request that event k belongs to, -1 at the end.
  row(k) {
    return k >= this.n ? -1 : last(this.d.rows, k);
  }

  // Return the x coordinate of token p on the broken scale.
  px(p) {
    const a = this.d.at;
    const x = this.d.x;
    let lo = 0;
    let hi = a.length - 2;
    while (lo < hi) {
      const mid = (lo + hi + 1) >> 1;
      if (a[mid] <= p) lo = mid;
      else hi = mid - 1;
    }
    return a.length < 2 ? x[0] : x[lo] + Math.min(1, (p - a[lo]) / (a[lo + 1] - a[lo])) * (x[lo + 1] - x[lo]);
  }

  // Return the y coordinate of a request.
  y(row) {
    return this.d.top + row * this.d.step;
  }

  // Return what a slot held at event k.
  held(slot, k) {
    const s = this.d.slots[slot];
    const out = {};
    for (const name of ["owner", "tokens", "rows", "window", "state", "checkpoints"]) out[name] = last(s[name], k);
    return out;
  }

  // Show the run as it was at event k.
  go(k) {
    this.k = k;
    const over = k >= this.n;
    const current = this.row(k);
    this.rows.forEach((g, i) => {
      if (!g) return;
      const now = over ? "over" : this.d.begins[i] > k ? "later" : this.d.ends[i] <= k ? "over" : "running";
      if (this.state[i] !== now) {
        this.state[i] = now;
        g.classList.toggle("later", now === "later");
        g.classList.toggle("running", now === "running");
        if (now !== "running") all(".veil", g).forEach((e) => e.remove());
      }
    });
    const seen = new Set();
    if (!over) {
      for (const slot of Object.keys(this.d.slots)) {
        const h = this.held(slot, k);
        if (h.owner === undefined || !this.rows[h.owner]) continue;
        seen.add(h.owner);
        this.memory(h, slot, k);
        if (this.state[h.owner] === "running") this.veil(h.owner, h.tokens);
      }
    }
    this.state.forEach((now, i) => {
      if (now === "running" && !seen.has(i)) this.veil(i, 0);
    });
    for (const [row, was] of this.live) {
      if (!seen.has(row)) {
        was.group.remove();
        this.live.delete(row);
        this.rows[row].classList.remove("alive");
      }
    }
    this.svg.classList.toggle("walking", !over);
    this.lane(k, over, current);
    this.rows.forEach((g, i) => g && g.classList.toggle("current", i === current));
  }

  // Cover the tokens of a running request that the server did not have yet.
  veil(row, tokens) {
    const g = this.rows[row].querySelector(".bar");
    const x = this.px(tokens);
    let v = g.querySelector(".veil");
    if (!v) v = svg("rect", { class: "veil", y: this.y(row) - 3, height: 28 }, g);
    v.setAttribute("x", x);
    v.setAttribute("width", Math.max(0, this.d.width[0] - x));
  }

  // Draw what a slot holds beneath the request whose tokens they are, unless it stands there already.
  memory(h, slot, k) {
    const s = this.d.slots[slot];
    const key =
      slot + ":" + ["tokens", "rows", "window", "state", "checkpoints"].map((name) => index(s[name], k)).join();
    const was = this.live.get(h.owner);
    if (was && was.key === key) return;
    if (was) was.group.remove();
    const g = svg("g", { class: "live" }, this.rows[h.owner]);
    const y = this.y(h.owner) + 22;
    const bar = (name, span, dy, title) => {
      const a = this.px(span[0]);
      const b = this.px(span[1]);
      const wide = Math.max(1, b - a);
      const each = wide / Math.max(1, Math.min(span[1] - span[0], Math.floor(wide / 8) || 1));
      svg(
        "path",
        {
          class: name,
          d: "M" + a + " " + (y + dy + 1.5) + "H" + (a + wide),
          "stroke-dasharray": Math.max(each - 1, 0.5) + " 1",
        },
        say(svg("g", {}, g), title + " " + span[0] + " to " + (span[1] - 1)),
      );
    };
    for (const span of h.rows || []) bar("rows", span, 2, "attention: rows");
    for (const span of h.window || []) bar("win", span, 6.5, "window: rows");
    if (h.state !== null && h.state !== undefined) {
      svg(
        "circle",
        { class: "dot", cx: this.px(h.state), cy: y + 13, r: 4 },
        say(svg("g", {}, g), "recurrent state after " + h.state + " tokens"),
      );
    }
    for (const c of h.checkpoints || []) {
      svg(
        "path",
        { class: "mark", d: "M" + (this.px(c[0]) - 4) + " " + (y + 26) + "h8l-4 -8z" },
        say(
          svg("g", {}, g),
          "checkpoint of " + c[0] + " tokens" + (c.length > 1 ? ", [pos_min " + c[1] + ", pos_max " + c[2] + "]" : ""),
        ),
      );
    }
    this.live.set(h.owner, { key, group: g });
    this.rows[h.owner].classList.add("alive");
  }

  // Draw the entries of the prompt cache at event k: those saved and removed by it are marked.
  lane(k, over, current) {
    if (over || !this.cache) {
      this.now.replaceChildren();
      this.cache?.removeAttribute("clip-path");
      return;
    }
    const y = this.y(Math.max(0, current)) + 7;
    const there = last(this.d.entries, k) || [];
    const before = last(this.d.entries, k - 1) || [];
    const has = (list, one) => list.some((o) => o[0] === one[0] && o[1] === one[1]);
    this.clip.setAttribute("height", y);
    this.cache.setAttribute("clip-path", "url(#" + this.mark + "clip)");
    this.now.replaceChildren();
    const [, first, second] = this.d.cache;
    const box = (one, kind, what) => {
      const x = first + one[0] * (second - first);
      const g = svg("g", {}, this.now);
      say(g, "prompt cache entry of " + one[1] + " tokens" + what);
      svg("rect", { class: kind, x, y, width: 8, height: 8 }, g);
      return x;
    };
    for (const one of there) {
      box(one, "full" + (has(before, one) ? "" : " fresh"), has(before, one) ? "" : ", saved at this event");
    }
    for (const one of before) {
      if (!has(there, one)) {
        const x = box(one, "gone box", ", removed at this event");
        if (this.d.taken.includes(current)) {
          svg(
            "path",
            { class: "gone", d: "M" + x + " " + (y + 4) + "H" + (this.d.lanes[current] + 15) + "m4 -3l-4 3l4 3" },
            this.now,
          );
        }
      }
    }
  }
}

// Fill places: events of one request stand side by side in all runs, the shorter run waits at its last one.
function line() {
  if (runs.length) {
    const most = Math.max(...runs.map((r) => r.d.begins.length));
    for (let q = -1; q < most; q++) {
      const from = runs.map((r) => (q < 0 ? 0 : (r.d.begins[q] ?? r.n)));
      const to = runs.map((r) => r.d.begins[q + 1] ?? r.n);
      const wide = Math.max(...runs.map((r, i) => to[i] - from[i]));
      for (let j = 0; j < wide; j++) places.push(runs.map((r, i) => Math.max(0, Math.min(from[i] + j, to[i] - 1))));
    }
    places.push(runs.map((r) => r.n));
  }
}

// Return whether the runs log different lines at position p.
const differ = (p) => new Set(runs.map((r, i) => r.text(places[p][i]))).size > 1;

// Open the decisions of a request and mark it in the drawing; scroll: bring it into view.
function choose(id, scroll) {
  const d = $("d-" + id);
  if (!d) return;
  const section = d.closest("section");
  all("details.shown", section).forEach((e) => {
    e.classList.remove("shown");
    if (e !== d && !e.dataset.kept) e.open = false;
  });
  d.classList.add("shown");
  d.open = true;
  all("g.chosen", section).forEach((g) => g.classList.remove("chosen"));
  const g = $(id);
  if (!g) return;
  g.classList.add("chosen");
  if (scroll) {
    const box = section.querySelector(".draw");
    const top = box.querySelector("svg").viewBox.baseVal.y;
    const y = (g.querySelector(".frame").y.baseVal.value - top) * zoom;
    if (y < box.scrollTop + 40 * zoom || y + 90 * zoom > box.scrollTop + box.clientHeight) {
      box.scrollTop = Math.max(0, y - 60 * zoom);
    }
  }
}

// Show the position of the slider in all runs.
function show() {
  const p = +at.value;
  const ks = places[p];
  const end = p === places.length - 1;
  $("count").textContent = end ? "end, " + (places.length - 1) + " events" : p + 1 + " of " + (places.length - 1);
  const lines = runs.map((r, i) => {
    r.go(ks[i]);
    const q = r.row(ks[i]);
    if (q >= 0) choose(r.mark + "r" + q, true);
    return (
      (runs.length > 1 ? r.section.dataset.run + ": " : "") + (q >= 0 ? "request " + q + ": " : "") + r.text(ks[i])
    );
  });
  const apart = !end && runs.length > 1 && differ(p);
  $("now").classList.toggle("apart", apart);
  $("now").replaceChildren(
    ...(end ? ["the end: the whole picture"] : lines).map((line) => {
      const e = document.createElement("span");
      e.textContent = line;
      return e;
    }),
  );
  at.setAttribute("aria-valuetext", $("now").textContent);
}

function go(p) {
  at.value = p;
  show();
}

function step(by) {
  go(+at.value + by);
}

// Move by whole requests.
function request(by) {
  const r = runs[0];
  const p = +at.value;
  const q = p === places.length - 1 ? r.d.begins.length : r.row(places[p][0]);
  const to = q + by;
  if (to < 0) return go(0);
  const k = r.d.begins[to];
  go(k === undefined ? places.length - 1 : places.findIndex((one) => one[0] >= k));
}

// Zoom the drawings.
function size(by) {
  zoom = Math.min(4, Math.max(0.25, zoom * by));
  document.body.style.setProperty("--zoom", zoom);
  runs.forEach((r) => r.stay());
}

// Follow the anchor of the address: an event or a request.
function went() {
  const id = decodeURIComponent(location.hash.slice(1)).replace(/^d-/, "");
  const m = id.match(/^(p(\d+)-)?e(\d+)$/);
  if (m) {
    const i = +(m[2] || 0);
    const p = places.findIndex((one) => one[i] >= +m[3]);
    if (p >= 0) go(p);
  } else if ($(id)) {
    choose(id, true);
  }
}

// Leave out the notes beside the tokens where a drawing has no room for them.
function fit() {
  runs.forEach((r) => {
    const narrow = r.draw.clientWidth < r.d.width[1];
    const to = r.d.width[narrow ? 0 : 1];
    r.section.classList.toggle("narrow", narrow);
    const old = r.svg.viewBox.baseVal;
    if (old.width === to) return;
    r.svg.setAttribute("viewBox", [0, old.y, to, old.height].join(" "));
    r.svg.setAttribute("width", to);
  });
}

// Choose the request that a section opens with.
function first(section) {
  const open = section.querySelector("details[open]");
  const number = section.dataset.first;
  const mark = section.dataset.mark;
  if (open || number) choose(open ? open.id.slice(2) : mark + "r" + number);
}

document.body.classList.add("script");

// Start the slider with the data that was read, or without any.
function start(read) {
  data = read;
  runs = data.runs.map((d, i) => new Run(d, i));
  line();
  if (runs.length > 1) firstDifference = places.findIndex((_, p) => differ(p));
  if (places.length) {
    tools.hidden = false;
    at.max = places.length - 1;
    at.value = at.max;
    at.addEventListener("input", show);
    $("back").onclick = () => step(-1);
    $("on").onclick = () => step(1);
    $("out").onclick = () => size(0.8);
    $("in").onclick = () => size(1.25);
    at.addEventListener("keydown", (e) => {
      const by = { PageUp: -1, PageDown: 1 }[e.key];
      if (by) {
        e.preventDefault();
        request(by);
      }
    });
    if (firstDifference >= 0) {
      $("differ").hidden = false;
      $("differ").onclick = () => go(firstDifference);
    }
    show();
  }
  fit();
  addEventListener("resize", fit);
  all("section.run").forEach(first);
  if (location.hash) went();
  document.body.dataset.ready = "";
}

all("svg g[role=listitem]").forEach((g) => {
  const go = () => {
    history.replaceState(null, "", "#" + g.id);
    choose(g.id);
  };
  g.addEventListener("click", go);
  g.addEventListener("keydown", (e) => {
    if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      go();
    }
  });
});

if (navigator.clipboard) {
  $("copy").hidden = false;
  $("copy").onclick = () =>
    navigator.clipboard.writeText($("command").textContent).then(
      () => {
        $("copy").textContent = "copied";
      },
      () => {},
    );
}

// On paper stand the end of the run and all decisions; before: the position and the closed details until then.
let before = null;
addEventListener("beforeprint", () => {
  if (before) return;
  before = [+at.value, all("details:not([open])")];
  if (places.length) go(places.length - 1);
  before[1].forEach((d) => {
    d.open = true;
  });
});
addEventListener("afterprint", () => {
  if (!before) return;
  before[1].forEach((d) => {
    d.open = false;
  });
  if (places.length) go(before[0]);
  before = null;
});

addEventListener("hashchange", went);
unpacked($("walk").textContent).then(start, () => start(data));
