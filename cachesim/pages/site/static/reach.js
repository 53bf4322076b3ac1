// What the theme leaves out for keyboards and screen readers: levels of headings, names of regions, and code and pictures that
// can be scrolled with the keyboard.
document.addEventListener("DOMContentLoaded", function () {
  "use strict";
  for (const caption of document.querySelectorAll("p.caption[role=heading]")) caption.setAttribute("aria-level", "2");
  const names = { "sidebar-drawer": "pages", "toc-drawer": "this page" };
  for (const [part, name] of Object.entries(names)) {
    for (const region of document.querySelectorAll("aside." + part)) region.setAttribute("aria-label", name);
  }
  for (const box of document.querySelectorAll("pre, p:has(> img[src$='.svg'])")) box.tabIndex = 0;
});
