// Timelines of a page: slider, keys, the chosen request, printing.

// Return the data of a timeline: base64, deflated JSON.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

// Return a new element with a text, and a new button.
function element(name, text) {
  const e = document.createElement(name);
  e.textContent = text;
  return e;
}

function button(kind, text, act, title) {
  const e = element("button", text);
  Object.assign(e, { type: "button", className: kind, onclick: act, title: title || "" });
  return e;
}

// A timeline: its runs, the slider and its buttons. places: the numbers k of each position.
class Timeline {
  constructor(root, data) {
    this.root = root;
    this.tools = this.find("tools");
    this.at = this.find("at");
    this.panel = this.find("event");
    this.sections = all("section.run", root);
    this.runs = data.runs.map((d, i) => new Run(d, this.sections[i], data.forms));
    this.zoom = 1;
    if (this.runs.length) {
      this.tools.hidden = false;
      this.at.addEventListener("input", () => this.move(() => this.show()));
      const on = { play: () => this.play(), back: () => this.move(() => this.step(-1)) };
      on.on = () => this.move(() => this.step(1));
      Object.assign(on, { out: () => this.size(0.8), in: () => this.size(1.25) });
      on.differ = () => this.go(this.firstDifference);
      for (const [name, act] of Object.entries(on)) this.find(name).onclick = act;
      this.walk("tabs" in root.dataset ? this.runs.slice(0, 1) : this.runs);
    }
    all("svg g[role=listitem]", root).forEach((g) => this.listen(g));
    this.sections.forEach((one) => this.first(one));
  }

  find(name) {
    return this.root.querySelector("." + name);
  }

  // The position after the last event: the complete picture.
  get end() {
    return this.places.length - 1;
  }

  // Walk these runs side by side, and show their complete pictures. Where runs have tabs, the others are hidden.
  walk(runs) {
    this.walked = runs;
    this.places = this.line();
    this.firstDifference = runs.length > 1 ? this.places.findIndex((_, p) => this.differ(p)) : -1;
    this.find("differ").hidden = this.firstDifference < 0;
    if ("tabs" in this.root.dataset) {
      this.sections.forEach((one, i) => (one.hidden = !runs.includes(this.runs[i])));
      this.find("tabs").replaceChildren(...(this.runs.length > 1 ? this.runs.map((r) => this.tab(r)) : []));
    }
    this.at.max = this.end;
    this.go(this.end);
    this.fit();
  }

  tab(run) {
    const e = button("", run.section.dataset.run, () => this.walk([run]));
    e.setAttribute("aria-pressed", this.walked.includes(run));
    return e;
  }

  // Return the positions: events of one request stand side by side in all runs, the shorter run waits at its last one.
  line() {
    const places = [];
    const most = Math.max(...this.walked.map((r) => r.d.begins.length));
    for (let q = 0; q < most; q++) {
      const stops = this.walked.map((r) => r.stops(q));
      const wide = Math.max(...stops.map((one) => one.length));
      for (let j = 0; j < wide; j++) {
        const before = (i) => Math.max(0, (this.walked[i].d.begins[q] ?? 0) - 1);
        places.push(stops.map((one, i) => one[Math.min(j, one.length - 1)] ?? before(i)));
      }
    }
    return [...places, this.walked.map((r) => r.n)];
  }

  // Return whether the runs log different lines at position p.
  differ(p) {
    return new Set(this.walked.map((r, i) => r.text(this.places[p][i]))).size > 1;
  }

  // Drawings that stand side by side begin at the same height.
  align() {
    const heads = this.sections.map((one) => one.querySelector(".above"));
    heads.forEach((one) => (one.style.minHeight = ""));
    const places = heads.map((one) => [one.getBoundingClientRect().top, one.offsetHeight]);
    heads.forEach((one, i) => {
      const beside = places.filter(([top]) => top === places[i][0]);
      one.style.minHeight = Math.max(...beside.map(([, high]) => high)) + "px";
    });
  }

  // Fit the drawings and the marks to the width.
  fit() {
    this.align();
    this.runs.forEach((r) => r.fit());
    if (this.places) this.mark();
  }

  // Mark on the slider where tokens are lost (above it), where requests begin and which are answered wrong (below it).
  mark() {
    const some = { losses: [], requests: [] };
    const put = (where, run, k, kind, text, title) => some[where].push([this.place(run, k), kind, text, title]);
    const wrong = new Set(this.walked.flatMap((run) => run.d.wrong));
    this.walked.forEach((run) => {
      for (const [k, tokens, request] of run.d.lost) {
        const title = tokens + " tokens lost, evaluated again at request " + request;
        put("losses", run, k, "loss", "\u25bc " + tokens + " lost", title);
      }
    });
    this.walked[0].d.begins.forEach((k, q) => {
      const [kind, text, more] = wrong.has(q) ? ["fault", "\u2717 " + q, ": wrong answer"] : ["", "" + q, ""];
      put("requests", this.walked[0], k, kind, text, "request " + q + more);
    });
    const wide = this.at.clientWidth - 16;
    for (const [name, each] of Object.entries(some)) {
      let free = -1;
      const there = each.sort((a, b) => a[0] - b[0]).filter(([p, , text]) => {
        const left = Math.min((p / this.end) * wide, wide + 8 - 8 * text.length);
        const fits = left >= free;
        if (fits) free = left + 7 * text.length + 8;
        return fits;
      });
      this.find(name).replaceChildren(
        ...there.map(([p, kind, text, title]) => {
          const e = button(kind, text, () => this.go(p), title);
          e.style.left = "min(8px + (100% - 16px) * " + p / this.end + ", 100% - " + text.length + "ch)";
          e.tabIndex = -1;
          return e;
        }),
      );
    }
  }

  // Return the position of event k of a run.
  place(run, k) {
    const i = this.walked.indexOf(run);
    return this.places.findIndex((one) => one[i] >= k);
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
    const run = this.runs.find((r) => r.rows.includes(g));
    if (!run) return;
    const row = run.rows.indexOf(g);
    g.addEventListener("focus", () => this.tell(run.points(row)));
    g.addEventListener("pointermove", (e) => {
      const x = (e.clientX - run.svg.getBoundingClientRect().left) / run.scale() + run.svg.viewBox.baseVal.x;
      this.tell(run.point(row, x));
    });
  }

  // Show what the pointer or the focus is at.
  tell(text) {
    this.find("point").textContent = text;
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
    this.find("count").textContent = end ? "end, " + this.end + " events" : p + 1 + " of " + this.end;
    const lines = this.walked.map((r, i) => {
      r.go(ks[i], p ? this.places[p - 1][i] : -1);
      const q = r.row(ks[i]);
      if (q >= 0) this.choose(r.mark + "r" + q, true);
      return this.says(r, q, r.text(ks[i]));
    });
    this.panel.classList.toggle("apart", !end && this.walked.length > 1 && this.differ(p));
    this.panel.replaceChildren(...(end ? [element("span", "the end: the whole picture")] : lines));
    this.at.setAttribute("aria-valuetext", this.panel.textContent);
  }

  // Return the sentence of an event as an element: run and request before it, the rule behind it.
  says(run, request, text) {
    const [, rule, sentence] = text.match(/^([A-Z]+-[\w.-]+): (.*)$/s) || [, "", text];
    const name = this.walked.length > 1 ? run.section.dataset.run + ": " : "";
    const e = element("span", name + (request >= 0 ? "request " + request + ": " : "") + sentence + " ");
    if (rule) e.append(element("code", rule));
    return e;
  }

  go(p) {
    this.at.value = p;
    this.show();
  }

  step(by) {
    this.go(+this.at.value + by);
  }

  // Move as the reader asks; what plays stops.
  move(act) {
    if (this.timer) this.stop();
    act();
  }

  // Go to event k of a run, and show the run if another tab is open.
  event(run, k) {
    if (!this.walked.includes(run)) this.walk([run]);
    const p = this.place(run, k);
    this.go(p < 0 ? this.end : p);
  }

  // Move by whole requests.
  request(by) {
    const r = this.walked[0];
    const p = +this.at.value;
    const q = p === this.end ? r.d.begins.length : r.row(this.places[p][0]);
    if (q + by < 0) return this.go(0);
    this.event(r, r.d.begins[q + by] ?? r.n);
  }

  // Begin to play, from the start if the slider is at the end; or stop. Where motion shall be reduced, play slowly.
  play() {
    if (this.timer) return this.stop();
    if (+this.at.value === this.end) this.go(0);
    this.timer = setInterval(() => {
      this.step(1);
      if (+this.at.value === this.end) this.stop();
    }, PACE * (matchMedia("(prefers-reduced-motion: reduce)").matches ? 2 : 1));
    this.playing(true);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.playing(false);
  }

  playing(on) {
    const button = this.find("play");
    button.textContent = on ? "\u275a\u275a" : "\u25b6";
    button.setAttribute("aria-label", on ? "pause" : "play");
  }

  // Move by a key: arrows, with Shift by requests; on the slider also Page Up, Page Down and Space. Return whether
  // the key was one of these.
  key(e) {
    const slider = e.target === this.at;
    const arrow = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (arrow && e.shiftKey) this.move(() => this.request(arrow));
    else if (arrow) this.move(() => this.step(arrow));
    else if (slider && e.key === "PageUp") this.move(() => this.request(-1));
    else if (slider && e.key === "PageDown") this.move(() => this.request(1));
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
    if (this.runs.length) this.go(this.end);
    this.before[1].forEach((d) => {
      d.open = true;
    });
  }

  printed() {
    if (!this.before) return;
    this.before[1].forEach((d) => {
      d.open = false;
    });
    if (this.runs.length) this.go(this.before[0]);
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
    const run = m && one.runs.find((r) => r.mark === m[1]);
    if (run) one.event(run, +m[2]);
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

addEventListener("resize", () => timelines.forEach((one) => one.fit()));
addEventListener("beforeprint", () => timelines.forEach((one) => one.print()));
addEventListener("afterprint", () => timelines.forEach((one) => one.printed()));
addEventListener("hashchange", went);
addEventListener("keydown", (e) => {
  const one = timelines.find((other) => other.root.contains(e.target)) || (e.target === document.body && active);
  if (!one || !one.runs.length || e.ctrlKey || e.metaKey || e.altKey) return;
  if (one.key(e)) e.preventDefault();
});
Promise.all(all(".timeline").map(startTimeline)).then(() => {
  active = timelines[0];
  if (location.hash) went();
  document.body.dataset.ready = "";
});
