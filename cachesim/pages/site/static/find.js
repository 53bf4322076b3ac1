// The search box. A log line is compared with the templates of all known lines, and the template with the most fixed
// letters wins, of the engine whose words the line has. Any other text is looked up among names (flags, rules, threads,
// terms, scenarios), then the flags and environment variables in it, such as those of a command line, then titles. The
// last answer is always the search in the text of all pages, which Sphinx has written.
(function () {
  "use strict";
  const MOST = 8;
  const root = document.documentElement.dataset.content_root || "./";
  const entries = window.CACHESIM_ENTRIES || [];
  const signs = window.CACHESIM_SIGNS || {};      // texts that occur only in logs of an engine, by engine

  function collapsed(text) {
    return text.trim().split(/\s+/).join(" ");
  }

  function escaped(text) {
    return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  }

  // The regular expression of a template, and the number of its fixed letters. {name} is a word, {name,} a number with
  // separators, {} any text; as in cachesim/engines/shared/log_grammar.py.
  function pattern(template) {
    let source = "";
    let letters = 0;
    for (const part of collapsed(template).split(/(\{\w*,?\})/)) {
      if (part === "{}") source += ".*?";
      else if (/^\{\w+,\}$/.test(part)) source += " ?[0-9]+(?:,[0-9]+)*";
      else if (/^\{\w+\}$/.test(part)) source += " ?[^\\s,()\\[\\]/']+";
      else { source += escaped(part); letters += part.replace(/\W/g, "").length; }
    }
    return { expression: new RegExp(source, "i"), letters };
  }

  const lines = [];
  for (const entry of entries) {
    for (const template of entry.templates || []) lines.push({ entry, template, ...pattern(template) });
  }
  lines.sort((a, b) => b.letters - a.letters);

  function byLine(text) {
    if (text.length < 8) return [];
    const found = lines.filter((line) => line.letters >= 6 && line.expression.test(text));
    const seen = (line) => (signs[engineOf(line.entry)] || []).filter((sign) => text.includes(sign)).length;
    found.sort((a, b) => seen(b) - seen(a));
    return found.map((line) => ({ ...line.entry, title: readable(line.template) + " (" + engineOf(line.entry) + ")" }));
  }

  // A template as people read it, as in cachesim/pages/site/line_pages.py: three dots are any text.
  function readable(template) {
    const opened = template.includes("{}}") ? template.replace("{}", "{...") : template;
    return opened.replaceAll(".{}", ". {}").replaceAll("{}", "...").replace(/\{(\w+),\}/g, "{$1}");
  }

  function engineOf(entry) {
    return entry.path.split("/")[1].split("-")[0];
  }

  function nameForm(text) {
    return text.toLowerCase().replace(/_/g, "-").replace(/^-+/, "").split(/[ =]/)[0];
  }

  // Entries with this name; of a flag, whatever its value, its dashes and underscores are.
  function exactly(text) {
    const whole = text.toLowerCase();
    const flag = text.startsWith("-") ? nameForm(text) : "";
    return entries.filter((entry) => (entry.names || []).some((name) =>
      name.toLowerCase() === whole || (flag && name.startsWith("-") && nameForm(name) === flag)));
  }

  function byName(text) {
    const whole = text.toLowerCase();
    const begun = whole.length < 3 ? [] : entries.filter((entry) => (entry.names || []).some(function (name) {
      const known = name.toLowerCase();
      return known.startsWith(whole) || known.includes("/" + whole) || (whole[0] === "#" && known.endsWith(whole));
    }));
    return exactly(text).concat(begun);
  }

  function byFlags(text) {
    const words = text.split(" ").map((word) => word.split("=")[0]);
    return words.filter((word) => /^--?[a-z]|^[A-Z]+_[A-Z_]+$/i.test(word)).flatMap(exactly);
  }

  function byWords(text) {
    const words = text.toLowerCase().split(/[^\w#./-]+/).filter((word) => word.length > 2);
    if (!words.length) return [];
    return entries.filter((entry) => words.every((word) => (entry.title + " " + entry.says).toLowerCase().includes(word)));
  }

  function answers(text) {
    const plain = collapsed(text);
    if (!plain) return [];
    const named = [...byName(plain), ...byLine(plain), ...byFlags(plain)];
    const isList = (entry) => entry.path.startsWith("flags/") && entry.path.includes("-other-");
    const mentioned = byWords(plain);
    const flags = mentioned.filter((entry) => entry.kind === "flag");
    const found = [...named.filter((entry) => !isList(entry)), ...flags, ...named.filter(isList), ...mentioned];
    const first = new Map();
    for (const entry of found) if (!first.has(entry.path)) first.set(entry.path, entry);
    return [...first.values()].slice(0, MOST);
  }

  function item(href, title, says) {
    const row = document.createElement("li");
    const anchor = document.createElement("a");
    const small = document.createElement("small");
    anchor.href = href;
    anchor.textContent = title;
    small.textContent = says;
    anchor.append(small);
    row.append(anchor);
    return row;
  }

  function show(form) {
    const text = form.querySelector("input").value;
    const list = form.querySelector(".found");
    const rows = answers(text).map((entry) => item(root + entry.path + ".html", entry.title, entry.kind + ": " + entry.says));
    if (collapsed(text).length > 1) {
      const whole = root + "search.html?q=" + encodeURIComponent(collapsed(text));
      rows.push(item(whole, "Search the text of all pages", rows.length ? "" : "no page has this name"));
    }
    list.replaceChildren(...rows);
    list.hidden = !rows.length;
  }

  window.cachesimAnswers = answers;                 // for tests of the site
  document.addEventListener("DOMContentLoaded", function () {
    for (const form of document.querySelectorAll("form.find")) {
      form.addEventListener("input", () => show(form));
      form.addEventListener("submit", function (event) {
        const first = form.querySelector(".found a");
        if (first) { event.preventDefault(); window.location.href = first.href; }
      });
    }
  });
})();
