// A run of a timeline: its drawing, and the memory at each event. A page holds this file and walk.js without comment
// lines and indentation, so no template literal may span lines.
// k is the number of an event in one run's log, p a position of the slider: one k per run. r3 and p1-r3 are the anchors
// of request 3 in the first and the second run of a timeline, e5 and p1-e5 those of event 5; timelines after the first
// of a page have a prefix of their own before these.
"use strict";

// Return the element with an id, and all elements that match a selector.
const $ = (id) => document.getElementById(id);
const all = (what, of = document) => [...of.querySelectorAll(what)];

const NS = "http://www.w3.org/2000/svg";

// What happens to a part of the memory at an event, by the sign beside it.
const SIGNS = { "+": "written", "\u00d7": "erased", r: "read" };

// Rows of every slot: field, class, distance from the tokens, name, tokens of a row. Runs have more.
const BARS = [
  ["rows", "rows", 2, "attention: rows", 1],
  ["window", "win", 6.5, "window: rows", 1],
];

// Gaps between the cells of a class in pixels, else 1; dots are as long as their gaps.
const GAPS = { idx: 2, packed: 2 };

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

// Return the parts of ranges that are in none of the others.
function minus(some, others) {
  const out = [];
  for (let [low, high] of some) {
    for (const [start, stop] of others) {
      if (start >= high || stop <= low) continue;
      if (start > low) out.push([low, start]);
      low = Math.max(low, stop);
    }
    if (low < high) out.push([low, high]);
  }
  return out;
}

// Return whether a sign at a point is clear of the others.
function free(signs, [x, y]) {
  return signs.every(([left, line]) => Math.abs(x - left) >= 9 || Math.abs(y - line) >= 9);
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
    this.state = [];
    this.drawn = [];
    this.rows = d.begins.map((_, i) => $(this.mark + "r" + i));
    this.draw = this.section.querySelector(".draw");
    this.svg = this.draw.querySelector("svg");
    this.cache = this.svg.querySelector(".cache");
    const clip = svg("clipPath", { id: this.mark + "clip" }, this.svg);
    this.clip = svg("rect", { x: 0, y: 0, width: d.x[0], height: 0 }, clip);
    this.now = svg("g", { class: "now" }, this.svg);
    this.head = this.svg.querySelector(".head");
    const [top, under] = d.head;
    this.head.prepend(svg("rect", { class: "cover", x: 0, y: top, width: d.width[1], height: under - top }));
    this.svg.append(this.head);
    this.differs = this.svg.querySelector(".first + text");
    this.draw.addEventListener("scroll", () => this.stay());
  }

  // Return the width of a unit of the drawing in pixels of the page.
  scale() {
    return this.svg.clientWidth / this.svg.viewBox.baseVal.width || 1;
  }

  // Leave out the notes beside the tokens where there is no room for them. A phone shows the lanes first.
  fit() {
    const narrow = this.draw.clientWidth < this.d.width[1];
    const to = this.d.width[narrow ? 0 : 1];
    this.section.classList.toggle("narrow", narrow);
    const old = this.svg.viewBox.baseVal;
    if (old.width !== to) this.svg.setAttribute("viewBox", [0, old.y, to, old.height].join(" "));
    this.svg.setAttribute("width", to);
    this.draw.style.setProperty("--natural", to + "px");
    this.draw.classList.toggle("scrolls", this.draw.scrollWidth > this.draw.clientWidth + 1);
    const phone = this.draw.clientWidth < 480;
    if (!this.begun && phone) this.draw.scrollLeft = (this.d.names - this.numbers()) * this.scale();
    this.begun = this.begun || this.draw.clientWidth > 0;
  }

  // Return whether only the numbers of the requests have room beside the tokens.
  short() {
    return this.draw.clientWidth < 600;
  }

  // Return the width of the numbers of the requests.
  numbers() {
    return 16 + 7.3 * ("#" + (this.rows.length - 1)).length;
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
    const names = this.short() ? this.numbers() : this.d.names;
    if (this.differs) this.differs.setAttribute("x", x > 0 ? x + names + 4 : 12);
    if (x > 0 && !this.names) this.name();
    if (!this.names) return;
    this.names.classList.toggle("moved", x > 0);
    this.names.setAttribute("transform", "translate(" + x + " 0)");
  }

  // Copy the names of the requests, to stand at the left edge; only the numbers where the drawing is narrow.
  name() {
    this.names = svg("g", { class: "names", "aria-hidden": "true" });
    const short = this.short();
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
    const wide = short ? this.numbers() : this.d.names - 4;
    svg(
      "rect",
      { class: "cover", x: 0, y: this.d.head[1], width: wide, height: this.rows.length * this.d.step },
      this.names,
    );
    this.names.append(...some);
    this.head.before(this.names);
  }

  // Return the events of request q that have a sentence.
  stops(q) {
    const found = [];
    const to = this.d.begins[q + 1] ?? this.n;
    for (let k = this.d.begins[q] ?? this.n; k < to; k++) if (this.text(k)) found.push(k);
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
    for (const name of Object.keys(s)) out[name] = last(s[name], k);
    return out;
  }

  // Show the run as it was at event k; what changed after event from is marked.
  go(k, from) {
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
    this.drawn.forEach((e) => e.remove());
    this.drawn = [];
    const seen = new Set();
    for (const slot of over ? [] : Object.keys(this.d.slots)) {
      const h = this.held(slot, k);
      if (h.owner === undefined || !this.rows[h.owner]) continue;
      seen.add(h.owner);
      const was = this.held(slot, from);
      const loaded = was.owner !== h.owner && was.tokens !== h.tokens;
      this.memory(h, loaded ? {} : was, this.reads(from, k, "checkpoint"));
      if (this.state[h.owner] === "running") this.veil(h.owner, k < this.d.settled[h.owner] ? 0 : h.tokens);
    }
    this.state.forEach((now, i) => {
      if (now === "running" && !seen.has(i)) this.veil(i, 0);
    });
    this.svg.classList.toggle("walking", !over);
    this.lane(k, from, over, current);
    this.rows.forEach((g, i) => {
      if (!g) return;
      g.classList.toggle("alive", seen.has(i));
      g.classList.toggle("current", i === current);
    });
  }

  // Return the lengths of the checkpoints or entries that are read after event from, up to event k.
  reads(from, k, kind) {
    return this.d.reads.filter(([when, what]) => from < when && when <= k && what === kind).map((one) => one[2]);
  }

  // Cover the tokens of a running request that the server does not have yet.
  veil(row, tokens) {
    const g = this.rows[row].querySelector(".bar");
    const x = this.px(tokens);
    let v = g.querySelector(".veil");
    if (!v) v = svg("rect", { class: "veil", y: this.y(row) - 3, height: 28 }, g);
    v.setAttribute("x", x);
    v.setAttribute("width", Math.max(0, this.px(this.d.words[row].at(-1)?.[2] ?? 0) + 2 - x));
  }

  // Draw what a slot holds beneath the request whose tokens they are: its memory now, what it had before, and the
  // lengths of the checkpoints that are read. Bars come last: their signs have a second place, at their end.
  memory(h, was, read) {
    const g = svg("g", { class: "live" }, this.rows[h.owner]);
    this.drawn.push(g);
    const y = this.y(h.owner) + 22;
    const lower = y + this.d.lower;
    const signs = [];
    const part = (kind, attributes, title, sign, ...places) => {
      const group = say(svg("g", { class: sign ? SIGNS[sign] : "" }, g), title + (sign ? ", " + SIGNS[sign] : ""));
      svg(kind, attributes, group);
      if (!sign) return;
      let [x, at] = places.find((one) => free(signs, one)) || places.at(-1);
      while (!free(signs, [x, at])) x += 9;
      signs.push([x, at]);
      svg("text", { class: "sign", x, y: at }, group).textContent = sign;
    };
    const bar = (name, [low, high], dy, title, ratio, sign) => {
      const a = this.px(low * ratio);
      const wide = Math.max(1, this.px(high * ratio) - a);
      const each = wide / Math.max(1, Math.min(high - low, Math.floor(wide / 8) || 1));
      const gap = GAPS[name] || 1;
      const dash = name === "idx" ? gap : Math.max(each - gap, 0.5);
      const d = "M" + a + " " + (y + dy + 1.5) + "H" + (a + wide);
      const cells = { class: name, d, "stroke-dasharray": dash + " " + gap };
      const places = [[a + wide / 2, lower + 16], [a + wide + 6, y + dy + 5]];
      part("path", cells, title + " " + low + " to " + (high - 1), sign, ...places);
    };
    const dot = (tokens, sign) => {
      const circle = { class: "dot", cx: this.px(tokens), cy: lower + 13, r: 4 };
      part("circle", circle, this.d.state + " after " + tokens + " tokens", sign, [this.px(tokens) + 9, lower + 17]);
    };
    const [to, at] = [h.state ?? -1, was.state ?? -1];
    if (at >= 0 && at !== to) {
      dot(at, "\u00d7");
      if (to >= 0) svg("path", { class: "way", d: "M" + this.px(at) + " " + (lower + 13) + "H" + this.px(to) }, g);
    }
    if (to >= 0) dot(to, at === to ? "" : "+");
    const mark = (c, sign) => {
      const span = c.length > 1 ? ", [pos_min " + c[1] + ", pos_max " + c[2] + "]" : "";
      const triangle = { class: "mark", d: "M" + (this.px(c[0]) - 4) + " " + (lower + 26) + "h8l-4 -8z" };
      part("path", triangle, "checkpoint of " + c[0] + " tokens" + span, sign, [this.px(c[0]) + 9, lower + 27]);
    };
    const [marks, old] = [h.checkpoints || [], was.checkpoints || []];
    const has = (list, c) => list.some((one) => String(one) === String(c));
    for (const c of marks) mark(c, read.includes(c[0]) ? "r" : has(old, c) ? "" : "+");
    for (const c of old) if (!has(marks, c)) mark(c, "\u00d7");
    for (const [name, kind, dy, title, ratio] of [...BARS, ...this.d.bars]) {
      const [now, before] = [h[name] || [], was[name] || []];
      for (const span of now) bar(kind, span, dy, title, ratio);
      for (const span of minus(now, before)) bar(kind, span, dy, title, ratio, "+");
      for (const span of minus(before, now)) bar(kind, span, dy, title, ratio, "\u00d7");
    }
  }

  // Draw the entries of the prompt cache at event k: those saved, read and removed after event from are marked.
  lane(k, from, over, current) {
    this.now.replaceChildren();
    if (over || !this.cache) {
      this.cache?.removeAttribute("clip-path");
      return;
    }
    const y = this.y(Math.max(0, current)) + 7;
    const there = last(this.d.entries, k) || [];
    const before = last(this.d.entries, from) || [];
    const has = (list, one) => list.some((o) => o[0] === one[0] && o[1] === one[1]);
    this.clip.setAttribute("height", y);
    this.cache.setAttribute("clip-path", "url(#" + this.mark + "clip)");
    const [, first, second] = this.d.cache;
    const read = this.reads(from, k, "entry");
    const slot = this.d.lanes[current] + 15;
    const box = (one, kind, what) => {
      const x = first + one[0] * (second - first);
      const g = svg("g", {}, this.now);
      say(g, "prompt cache entry of " + one[1] + " tokens" + what);
      svg("rect", { class: kind, x, y, width: 8, height: 8 }, g);
      return x;
    };
    const arrow = (kind, x) => {
      svg("path", { class: kind, d: "M" + x + " " + (y + 4) + "H" + slot + "m4 -3l-4 3l4 3" }, this.now);
    };
    for (const one of there) {
      const fresh = !has(before, one);
      const used = !fresh && read.includes(one[1]);
      const x = box(one, "full" + (fresh || used ? " fresh" : ""), fresh ? ", saved" : used ? ", read" : "");
      if (used) arrow("taken", x);
    }
    for (const one of before) {
      if (has(there, one)) continue;
      const x = box(one, "gone box", ", removed");
      if (this.d.taken.includes(current)) arrow("gone", x);
    }
  }

  // Return position, token and owner of a point of a request's row, "" beside its tokens.
  point(row, x) {
    const words = this.d.words[row];
    const [at, px] = [this.d.at, this.d.x];
    const i = px.findLastIndex((left) => left <= x);
    if (i < 0 || i + 1 >= at.length || !words.length) return "";
    const p = Math.floor(at[i] + ((x - px[i]) / (px[i + 1] - px[i])) * (at[i + 1] - at[i]));
    const w = words.findLastIndex(([start]) => start <= p);
    const [start, name, stop] = words[w];
    return p < stop ? "position " + p + ": token " + (p - start) + " of " + name + ", " + this.owner(row) : "";
  }

  // Return all tokens of a request's row in words.
  points(row) {
    const each = this.d.words[row].map(([start, name, stop]) => name + " " + start + "\u2013" + (stop - 1));
    return this.owner(row) + ": " + each.join(" \u00b7 ");
  }

  owner(row) {
    const slot = this.d.in[row];
    return "request " + row + (slot < 0 ? "" : " in slot " + slot);
  }
}
