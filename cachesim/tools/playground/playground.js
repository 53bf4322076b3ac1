// The form of the playground. It sends the case when it has changed, shows the result, and keeps the case in the
// address of the page. The script of timelines stands before it.
{
  const choices = JSON.parse($("choices").textContent);
  const fields = ["line", "model", "flags", "profile", "other"];
  const EVERY = "every engine";
  const PAUSE = 150;
  const SLOW = 400; // milliseconds after which a case is said to be simulated
  const AROUND = 30;

  // The case of the last result, as its command and its scenario file; the timer of the next case; a case in flight.
  let shown = {};
  let timer = 0;
  let running = false;
  let again = false;
  let welcome = !location.search;

  // Return a new element with a text.
  const made = (name, text, more) => Object.assign(document.createElement(name), { textContent: text }, more);

  const engine = () => $("profile").value.split("@")[0];

  // The newest rule set of every engine but the chosen one.
  const elsewhere = () =>
    Object.entries(choices.engines)
      .filter(([name]) => name !== engine())
      .slice(0, 4)
      .map(([, has]) => has.profiles[0]);

  // Return the case in the form.
  function typed() {
    const [line, model, flags] = ["line", "model", "flags"].map((id) => $(id).value);
    const others = $("other").value === EVERY ? elsewhere() : [$("other").value];
    return { line, model, flags, profiles: [$("profile").value, ...others].filter((name) => name) };
  }

  // Offer what the engine of the chosen rule set has.
  function offer() {
    const has = choices.engines[engine()];
    const other = $("other").value;
    $("other").replaceChildren(made("option", "no other", { value: "" }));
    const others = has.profiles.filter((name) => name !== $("profile").value);
    $("other").append(made("option", "every engine", { value: EVERY }));
    for (const [label, names] of [[engine(), others], ["other engines", elsewhere()]]) {
      const group = made("optgroup", "", { label });
      group.append(...names.map((name) => made("option", name)));
      $("other").append(group);
    }
    $("other").value = other;
    if ($("other").selectedIndex < 0) $("other").value = "";
    $("what-if").replaceChildren(made("option", "one flag were", { value: "" }));
    $("what-if").append(...has.what_if.map((text) => made("option", text)));
    const at = has.profiles.indexOf($("profile").value);
    $("newer").disabled = at < 1;
    $("older").disabled = at > has.profiles.length - 2;
    $("models").replaceChildren(...has.models.map((name) => made("option", "", { value: name })));
    for (const [id, pairs] of [["notation", has.notation], ["known-flags", has.flags]])
      $(id).replaceChildren(...pairs.flatMap(([word, text]) => [made("dt", word), made("dd", text)]));
  }

  // Fill the form with a case; an unknown rule set becomes the first.
  function fill(one) {
    $("line").value = one.line;
    $("model").value = one.model;
    $("flags").value = one.flags;
    $("profile").value = one.profiles[0];
    if ($("profile").selectedIndex < 0) $("profile").selectedIndex = 0;
    offer();
    $("other").value = one.profiles.length > 2 ? EVERY : one.profiles[1] || "";
    if ($("other").selectedIndex < 0) $("other").value = "";
  }

  // Return the address of a case.
  function address(one) {
    const words = new URLSearchParams({ line: one.line, model: one.model, flags: one.flags });
    one.profiles.forEach((name) => words.append("p", name));
    return location.pathname + "?" + words;
  }

  // Return the case in the address of the page, the first example without one.
  function addressed() {
    const words = new URLSearchParams(location.search);
    if (!words.has("line")) return choices.first;
    const [line, model, flags] = ["line", "model", "flags"].map((name) => words.get(name) || "");
    return { line, model, flags, profiles: words.getAll("p") };
  }

  // Show an error, with its place in the line.
  function complain(found) {
    const place = found.column;
    const parts = [];
    if (place) {
      const from = Math.max(0, place - 1 - AROUND);
      const text = $("line").value.slice(from, place + AROUND);
      parts.push(made("pre", text + "\n" + " ".repeat(place - 1 - from) + "^"));
    }
    if (found.error) parts.push(made("p", found.error + (found.hint ? " (" + found.hint + ")" : "")));
    $("problem").replaceChildren(...parts);
    $("line").setAttribute("aria-invalid", String(Boolean(place)));
    $("result").classList.toggle("old", Boolean(found.error));
    $("as-command").disabled = $("as-scenario").disabled = Boolean(found.error);
  }

  // Say that the case in the form is being simulated, and that the picture is that of the case before it.
  function markFormer() {
    const former = shown.html ? "; the picture is that of the former case" : "";
    $("notes").textContent = "simulating, at most a minute" + former;
    $("result").classList.add("old");
    $("result").setAttribute("aria-busy", "true");
    $("as-command").disabled = $("as-scenario").disabled = true;
  }

  // Simulate the case in the form. While a case is in flight, only the newest case waits.
  async function simulate() {
    if (running) {
      again = true;
      return;
    }
    running = true;
    const one = typed();
    history.replaceState(null, "", address(one) + location.hash);
    const waiting = setTimeout(markFormer, SLOW);
    const found = await sent(one);
    clearTimeout(waiting);
    $("result").removeAttribute("aria-busy");
    complain(found);
    $("notes").textContent = found.error ? "" : found.notes.join(". ");
    if (!found.error) {
      shown = found;
      $("result").innerHTML = found.html;
      await startTimeline($("result").querySelector(".timeline"));
      if (welcome) playOnce();
    }
    running = false;
    document.body.dataset.shown = JSON.stringify(one);
    if (again) {
      again = false;
      simulate();
    }
  }

  // Play the first case, unless motion shall be reduced.
  function playOnce() {
    welcome = false;
    const play = $("result").querySelector(".play");
    if (play && !matchMedia("(prefers-reduced-motion: reduce)").matches) play.click();
  }

  // Offer the examples that have every word, grouped by symptom.
  function offerExamples() {
    const words = $("words").value.toLowerCase().split(/\s+/).filter((word) => word);
    const says = (one) => [one.id, one.title, one.symptom, one.model, ...one.profiles].join(" ").toLowerCase();
    const found = Object.values(choices.examples).filter((one) => words.every((word) => says(one).includes(word)));
    const groups = Object.entries(choices.symptoms).map(([name, text]) => {
      const group = made("optgroup", "", { label: name + ": " + text });
      const mine = found.filter((one) => one.symptom === name);
      const named = (one) => one.title + " (" + one.profiles[0].split("@")[0] + ")";
      group.append(...mine.map((one) => made("option", named(one), { value: one.id })));
      return group;
    });
    $("example").replaceChildren(made("option", "choose one of " + found.length, { value: "" }));
    $("example").append(...groups.filter((group) => group.children.length));
  }

  // Move to the neighbour of the chosen rule set in its engine's list, which begins with the newest.
  function moveBuild(by) {
    const names = choices.engines[engine()].profiles;
    const next = names[names.indexOf($("profile").value) + by];
    if (!next) return;
    $("profile").value = next;
    offer();
    changed();
  }

  // Add a flag to those of the form; another value of the same flag is replaced.
  function addFlag(text) {
    const name = text.split(/[ =]/)[0];
    const kept = $("flags").value.split(/\s+(?=-)/).filter((one) => one && one.split(/[ =]/)[0] !== name);
    $("flags").value = [...kept, text].join(" ");
    changed();
  }

  // Return the result of a case.
  async function sent(one) {
    try {
      const headers = { "content-type": "application/json" };
      const reply = await fetch("/run", { method: "POST", headers, body: JSON.stringify(one) });
      return reply.ok ? await reply.json() : { error: await reply.text() };
    } catch {
      return { error: "the playground does not answer: is cachesim playground still running?" };
    }
  }

  function changed() {
    clearTimeout(timer);
    timer = setTimeout(simulate, PAUSE);
  }

  async function copy(text, what) {
    await navigator.clipboard.writeText(text);
    $("copied").textContent = what + " copied";
  }

  for (const [name, has] of Object.entries(choices.engines)) {
    const group = made("optgroup", "", { label: name });
    group.append(...has.profiles.map((profile) => made("option", profile)));
    $("profile").append(group);
  }
  offerExamples();

  fields.forEach((id) =>
    $(id).addEventListener("input", () => {
      $("example").value = "";
      if (id === "profile") offer();
      changed();
    }),
  );
  $("line").addEventListener("keydown", (e) => {
    if (e.key === "Enter") e.preventDefault();
  });
  $("case").addEventListener("submit", (e) => e.preventDefault());
  $("example").addEventListener("input", () => {
    const one = choices.examples[$("example").value];
    if (!one) return;
    history.replaceState(null, "", location.pathname + location.search);
    fill(one);
    simulate();
  });
  $("words").addEventListener("input", offerExamples);
  $("what-if").addEventListener("input", () => addFlag($("what-if").value));
  $("newer").onclick = () => moveBuild(-1);
  $("older").onclick = () => moveBuild(1);
  $("as-link").onclick = () => copy(location.origin + address(typed()), "link");
  $("as-command").onclick = () => copy(shown.command, "command");
  $("as-scenario").onclick = () => copy(shown.toml, "scenario");

  fill(addressed());
  simulate();
}
