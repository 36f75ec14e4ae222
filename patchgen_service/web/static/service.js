"use strict";
// Liveness and keys. Every page can be read and used without this.
(() => {
  const themes = ["system", "light", "dark"];
  const root = document.documentElement;
  const theme = document.getElementById("theme");
  const help = document.getElementById("help");
  let prefix = "";
  let at = -1;

  function nextTheme() {
    const now = root.dataset.theme ?? "system";
    const next = themes[(themes.indexOf(now) + 1) % themes.length];
    if (next === "system") delete root.dataset.theme;
    else root.dataset.theme = next;
    const age = next === "system" ? 0 : 31536000;
    document.cookie = `theme=${next}; path=/; max-age=${age}; samesite=lax`;
    theme.lastElementChild.textContent = next;
  }

  /** Rows that are shown, in their order. */
  const rows = () => [...document.querySelectorAll(".row")].filter((row) => row.offsetParent !== null);

  function move(step) {
    const all = rows();
    if (!all.length) return;
    document.querySelector(".row.is-at")?.classList.remove("is-at");
    at = Math.min(Math.max(at + step, 0), all.length - 1);
    const row = all[at];
    row.classList.add("is-at");
    row.scrollIntoView({ block: "nearest" });
    (row.querySelector("a.main-link") ?? row.querySelector("summary") ?? row.querySelector("a"))?.focus({ preventScroll: true });
  }

  function filter(field) {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of document.querySelectorAll(field.dataset.filter)) {
      row.hidden = !words.every((word) => (row.dataset.words ?? row.textContent.toLowerCase()).includes(word));
    }
  }

  function showFilters() {
    for (const label of document.querySelectorAll("label.filter")) label.hidden = false;
  }

  const actions = {
    j: () => move(1),
    k: () => move(-1),
    t: nextTheme,
    a: () => document.getElementById("approve")?.querySelector("button, a")?.focus(),
    "/": () => document.querySelector("label.filter input")?.focus(),
    "?": () => help.showModal(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.closest("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (prefix === "g") {
      prefix = "";
      const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
      if (link) link.click();
      return;
    }
    if (event.key === "g") { prefix = "g"; return; }
    const action = actions[event.key];
    if (action) { event.preventDefault(); action(); }
  });
  document.addEventListener("input", (event) => { if (event.target.dataset.filter) filter(event.target); });
  theme.closest("form").addEventListener("submit", (event) => { event.preventDefault(); nextTheme(); });
  document.getElementById("keys").hidden = false;
  document.getElementById("keys").addEventListener("click", () => help.showModal());
  showFilters();
  // where there is no room for a year, its end is what people come for
  for (const one of document.querySelectorAll(".plot.shares .scroll, .runs-strips")) one.scrollLeft = one.scrollWidth;

  // Nothing is replaced below a pressed button: it would not be there any more when it is let go. The next look brings it.
  let isPressed = false;
  for (const [name, state] of [["pointerdown", true], ["pointerup", false], ["pointercancel", false]]) {
    document.addEventListener(name, () => { isPressed = state; }, true);
  }
  document.addEventListener("htmx:beforeOnLoad", (event) => { if (isPressed) event.preventDefault(); });

  // A page that is replaced while it runs keeps what was unfolded, where the keyboard is, and the filter.
  let open = new Set();
  let filters = [];
  document.addEventListener("htmx:beforeSwap", () => {
    open = new Set([...document.querySelectorAll("#run details")].filter((one) => one.open).map((one) => one.id));
    filters = [...document.querySelectorAll("#run [data-filter]")].map((field) => field.value);
  });
  document.addEventListener("htmx:afterSwap", () => {
    for (const one of document.querySelectorAll("#run details[id]")) if (open.has(one.id)) one.open = true;
    document.querySelectorAll("#run [data-filter]").forEach((field, number) => {
      field.value = filters[number] ?? "";
      filter(field);
    });
    showFilters();
  });
})();
