// Timelines of a page: the memory at each event, the chosen request, printing. A page holds this file without comment
// lines and indentation, so no template literal may span lines.
// k is the number of an event in one run's log, p a position of the slider: one k per run. r3 and p1-r3 are the anchors
// of request 3 in the first and the second run of a timeline, e5 and p1-e5 those of event 5; timelines after the first
// of a page have a prefix of their own before these.
"use strict";

// Return the element with an id, and all elements that match a selector.
const $ = (id) => document.getElementById(id);
const all = (what, of = document) => [...of.querySelectorAll(what)];

const NS = "http://www.w3.org/2000/svg";

// Return the data of a timeline: base64, deflated JSON.
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
  constructor(d, section, forms) {
    [d.rows, d.entries, ...Object.values(d.slots).flatMap(Object.values)].forEach(summed);
    this.d = d;
    this.forms = forms;
    this.mark = section.dataset.mark;
    this.section = section;
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
    this.head.prepend(svg("rect", { class: "cover", x: 0, y: top, width: d.width[1], height: under - top }));
    this.svg.append(this.head);
    this.draw.addEventListener("scroll", () => this.stay());
  }

  // Return the width of a unit of the drawing in pixels of the page.
  scale() {
    return this.svg.clientWidth / this.svg.viewBox.baseVal.width || 1;
  }

  // Leave out the notes beside the tokens where there is no room for them.
  fit() {
    const narrow = this.draw.clientWidth < this.d.width[1];
    const to = this.d.width[narrow ? 0 : 1];
    this.section.classList.toggle("narrow", narrow);
    const old = this.svg.viewBox.baseVal;
    if (old.width !== to) this.svg.setAttribute("viewBox", [0, old.y, to, old.height].join(" "));
    this.svg.setAttribute("width", to);
    this.draw.style.setProperty("--natural", to + "px");
  }

  // Bring a request into view.
  reveal(g) {
    const scale = this.scale();
    const y = (g.querySelector(".frame").y.baseVal.value - this.svg.viewBox.baseVal.y) * scale;
    if (y < this.draw.scrollTop + 40 * scale || y + 90 * scale > this.draw.scrollTop + this.draw.clientHeight) {
      this.draw.scrollTop = Math.max(0, y - 60 * scale);
    }
  }

  // Keep the axis and the names of the requests in view while the drawing scrolls.
  stay() {
    const scale = this.scale();
    const x = this.draw.scrollLeft / scale;
    const y = this.draw.scrollTop / scale;
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
      { class: "cover", x: 0, y: this.d.head[1], width: wide, height: this.rows.length * this.d.step },
      this.names,
    );
    this.names.append(...some);
    this.head.before(this.names);
  }

  // Return the events of request q that have a sentence; q = -1: those before the first request.
  stops(q) {
    const found = [];
    const to = this.d.begins[q + 1] ?? this.n;
    for (let k = q < 0 ? 0 : (this.d.begins[q] ?? this.n); k < to; k++) if (this.text(k)) found.push(k);
    return found;
  }

  // Return the sentence of event k, "" if it has none.
  text(k) {
    if (k >= this.n) return "the end";
    const [form, ...numbers] = this.log[k].split(" ");
    let i = 0;
    return this.forms[form].replace(/\t/g, () => numbers[i++]);
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

// A timeline: its runs, the slider and its buttons. places: the numbers k of each position.
class Timeline {
  constructor(root, data) {
    const find = (name) => root.querySelector("." + name);
    this.root = root;
    this.tools = find("tools");
    this.at = find("at");
    this.panel = find("event");
    this.count = find("count");
    this.sections = all("section.run", root);
    this.runs = data.runs.map((d, i) => new Run(d, this.sections[i], data.forms));
    this.places = this.line();
    this.zoom = 1;
    this.firstDifference = this.runs.length > 1 ? this.places.findIndex((_, p) => this.differ(p)) : -1;
    if (this.places.length) {
      this.tools.hidden = false;
      this.at.max = this.end;
      this.at.value = this.end;
      this.at.addEventListener("input", () => this.show());
      const on = { play: () => this.play(), back: () => this.step(-1), on: () => this.step(1) };
      Object.assign(on, { out: () => this.size(0.8), in: () => this.size(1.25) });
      if (this.firstDifference >= 0) {
        on.differ = () => this.go(this.firstDifference);
        find("differ").hidden = false;
      }
      for (const [name, act] of Object.entries(on)) find(name).onclick = act;
      this.show();
    }
    all("svg g[role=listitem]", root).forEach((g) => this.listen(g));
    this.runs.forEach((r) => r.fit());
    this.sections.forEach((one) => this.first(one));
  }

  // The position after the last event: the complete picture.
  get end() {
    return this.places.length - 1;
  }

  // Return the positions: events of one request stand side by side in all runs, the shorter run waits at its last one.
  line() {
    const places = [];
    const most = Math.max(...this.runs.map((r) => r.d.begins.length));
    for (let q = -1; q < most; q++) {
      const stops = this.runs.map((r) => r.stops(q));
      const wide = Math.max(...stops.map((one) => one.length));
      for (let j = 0; j < wide; j++) {
        places.push(
          stops.map((one, i) => one[Math.min(j, one.length - 1)] ?? Math.max(0, (this.runs[i].d.begins[q] ?? 0) - 1)),
        );
      }
    }
    return this.runs.length ? [...places, this.runs.map((r) => r.n)] : [];
  }

  // Return whether the runs log different lines at position p.
  differ(p) {
    return new Set(this.runs.map((r, i) => r.text(this.places[p][i]))).size > 1;
  }

  // Choose a request by click, Enter or Space.
  listen(g) {
    const act = () => {
      history.replaceState(null, "", "#" + g.id);
      this.choose(g.id);
    };
    g.addEventListener("click", act);
    g.addEventListener("keydown", (e) => {
      if (e.key === "Enter" || e.key === " ") {
        e.preventDefault();
        act();
      }
    });
  }

  // Choose the request that a section opens with.
  first(section) {
    const open = section.querySelector("details[open]");
    this.choose(open ? open.id.slice(2) : section.dataset.mark + "r" + section.dataset.first);
  }

  // Open the decisions of a request and mark it in the drawing; scroll: bring it into view.
  choose(id, scroll) {
    const g = $(id);
    const section = g && g.closest("section");
    if (!section) return;
    const d = $("d-" + id);
    all("details.shown", section).forEach((e) => {
      e.classList.remove("shown");
      if (e !== d && !e.dataset.kept) e.open = false;
    });
    if (d) {
      d.classList.add("shown");
      d.open = true;
    }
    all("g.chosen", section).forEach((e) => e.classList.remove("chosen"));
    g.classList.add("chosen");
    const run = this.runs.find((r) => r.section === section);
    if (scroll && run) run.reveal(g);
  }

  // Show the position of the slider in all runs.
  show() {
    const p = +this.at.value;
    const ks = this.places[p];
    const end = p === this.end;
    active = this;
    this.count.textContent = end ? "end, " + this.end + " events" : p + 1 + " of " + this.end;
    const lines = this.runs.map((r, i) => {
      r.go(ks[i]);
      const q = r.row(ks[i]);
      if (q >= 0) this.choose(r.mark + "r" + q, true);
      const name = this.runs.length > 1 ? r.section.dataset.run + ": " : "";
      return name + (q >= 0 ? "request " + q + ": " : "") + r.text(ks[i]);
    });
    this.panel.classList.toggle("apart", !end && this.runs.length > 1 && this.differ(p));
    this.panel.replaceChildren(
      ...(end ? ["the end: the whole picture"] : lines).map((line) => {
        const e = document.createElement("span");
        e.textContent = line;
        return e;
      }),
    );
    this.at.setAttribute("aria-valuetext", this.panel.textContent);
  }

  go(p) {
    this.at.value = p;
    this.show();
  }

  step(by) {
    this.go(+this.at.value + by);
  }

  // Go to event k of a run.
  event(run, k) {
    const p = this.places.findIndex((one) => one[run] >= k);
    if (p >= 0) this.go(p);
  }

  // Move by whole requests.
  request(by) {
    const r = this.runs[0];
    const p = +this.at.value;
    const q = p === this.end ? r.d.begins.length : r.row(this.places[p][0]);
    if (q + by < 0) return this.go(0);
    this.event(0, r.d.begins[q + by] ?? r.n);
  }

  // Begin to play, from the start if the slider is at the end; or stop. Where motion is reduced, nothing moves between.
  play() {
    if (this.timer) return this.stop();
    if (+this.at.value === this.end) this.go(0);
    this.timer = setInterval(() => {
      this.step(1);
      if (+this.at.value === this.end) this.stop();
    }, PACE);
    this.playing(true);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.playing(false);
  }

  playing(on) {
    const button = this.root.querySelector(".play");
    button.textContent = on ? "\u275a\u275a" : "\u25b6";
    button.setAttribute("aria-label", on ? "pause" : "play");
  }

  // Move by a key: arrows, with Shift by requests; on the slider also Page Up, Page Down and Space. Return whether
  // the key was one of these.
  key(e) {
    const slider = e.target === this.at;
    const arrow = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (arrow && e.shiftKey) this.request(arrow);
    else if (arrow) this.step(arrow);
    else if (slider && e.key === "PageUp") this.request(-1);
    else if (slider && e.key === "PageDown") this.request(1);
    else if (slider && e.key === " ") this.play();
    else return false;
    return true;
  }

  // Zoom the drawings.
  size(by) {
    this.zoom = Math.min(8, Math.max(0.5, this.zoom * by));
    this.root.style.setProperty("--zoom", this.zoom);
    this.runs.forEach((r) => r.stay());
  }

  // On paper stand the end of the run and all decisions; before: the position and the closed details until then.
  print() {
    if (this.before) return;
    this.before = [+this.at.value, all("details:not([open])", this.root)];
    if (this.places.length) this.go(this.end);
    this.before[1].forEach((d) => {
      d.open = true;
    });
  }

  printed() {
    if (!this.before) return;
    this.before[1].forEach((d) => {
      d.open = false;
    });
    if (this.places.length) this.go(this.before[0]);
    this.before = null;
  }
}

// Milliseconds of an event while playing.
const PACE = 700;

// All timelines of the page, and the one that was moved last.
const timelines = [];
let active = null;

// Start the timeline in an element, also where it is inserted later; return it.
async function startTimeline(root) {
  const data = await unpacked(root.querySelector(".walk").textContent).catch(() => ({ forms: [], runs: [] }));
  const one = new Timeline(root, data);
  const others = timelines.filter((other) => other.root.isConnected && other.root !== root);
  timelines.splice(0, timelines.length, ...others, one);
  return one;
}

// Follow the anchor of the address: an event or a request.
function went() {
  const id = decodeURIComponent(location.hash.slice(1)).replace(/^d-/, "");
  const m = id.match(/^(.*)e(\d+)$/);
  for (const one of timelines) {
    const run = m ? one.runs.findIndex((r) => r.mark === m[1]) : -1;
    if (run >= 0) one.event(run, +m[2]);
    else if (one.root.contains($(id))) one.choose(id, true);
  }
}

document.body.classList.add("script");

if (navigator.clipboard && $("copy")) {
  $("copy").hidden = false;
  $("copy").onclick = () =>
    navigator.clipboard.writeText($("command").textContent).then(
      () => {
        $("copy").textContent = "copied";
      },
      () => {},
    );
}

addEventListener("resize", () => timelines.forEach((one) => one.runs.forEach((r) => r.fit())));
addEventListener("beforeprint", () => timelines.forEach((one) => one.print()));
addEventListener("afterprint", () => timelines.forEach((one) => one.printed()));
addEventListener("hashchange", went);
addEventListener("keydown", (e) => {
  const one = timelines.find((other) => other.root.contains(e.target)) || (e.target === document.body && active);
  if (!one || !one.places.length || e.ctrlKey || e.metaKey || e.altKey) return;
  if (one.key(e)) e.preventDefault();
});
Promise.all(all(".timeline").map(startTimeline)).then(() => {
  active = timelines[0];
  if (location.hash) went();
  document.body.dataset.ready = "";
});
