"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const form = byId("filters");
  const count = byId("count");
  const unfold = byId("unfold");
  const theme = byId("theme");
  const rows = new Map([...document.querySelectorAll("#heat tr[data-of]")].map((row) => [row.dataset.of, row]));
  const configs = [...document.querySelectorAll("details.config")].map((element) => ({
    element,
    row: rows.get(element.id),
    words: element.dataset.words,
    values: JSON.parse(element.dataset.values),
  }));
  const themes = { "": "system", light: "light", dark: "dark" };
  let at = "";
  let announcing = 0;

  /** What is chosen: a list of values for each name of a field that has some. */
  function chosen() {
    const found = {};
    for (const [name, value] of new FormData(form)) {
      if (value.trim()) (found[name] ??= []).push(value.trim());
    }
    return found;
  }

  function filter() {
    const { q = [], ...facets } = chosen();
    const words = q.join(" ").toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = Object.entries(facets);
    let shown = 0;
    for (const config of configs) {
      const fits =
        words.every((word) => config.words.includes(word)) &&
        wanted.every(([key, values]) => values.some((value) => (config.values[key] ?? []).includes(value)));
      if (config.element.hidden === fits) config.element.hidden = !fits;
      if (config.row && config.row.hidden === fits) config.row.hidden = !fits;
      shown += fits;
    }
    byId("none").hidden = shown > 0 || configs.length === 0;
    clearTimeout(announcing);
    const text = `${shown} of ${configs.length} shown`;
    announcing = setTimeout(() => { if (count.textContent !== text) count.textContent = text; }, 120);
    byId("clear").disabled = words.length + wanted.length === 0;
  }

  /** The view as the address has it, so that it can be linked. */
  function remember() {
    const parts = new URLSearchParams();
    for (const [name, values] of Object.entries(chosen())) values.forEach((value) => parts.append(name, value));
    const { theme: name } = document.documentElement.dataset;
    if (name) parts.set("theme", name);
    if (at) parts.set("at", at);
    const text = parts.toString();
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  }

  function restore() {
    const hash = location.hash.slice(1);
    if (hash && !hash.includes("=")) {
      open(decodeURIComponent(hash));
      return;
    }
    const parts = new URLSearchParams(hash);
    for (const field of form.elements) {
      if (!field.name) continue;
      if (field.type === "checkbox") field.checked = parts.getAll(field.name).includes(field.value);
      else field.value = parts.get(field.name) ?? "";
    }
    setTheme(parts.get("theme") ?? "");
    filter();
    if (parts.get("at")) open(parts.get("at"));
  }

  /** Show one config, unfolded. */
  function open(id) {
    const element = byId(id);
    if (!element) return;
    at = "";
    if (element.matches("details.config")) {
      at = id;
      element.hidden = false;
      element.open = true;
      element.scrollIntoView({ block: "start" });
      element.querySelector("summary").focus({ preventScroll: true });
    } else {
      element.scrollIntoView({ block: "start" });
      element.focus({ preventScroll: true });
    }
  }

  function setTheme(name) {
    if (!(name in themes)) name = "";
    if (name) document.documentElement.dataset.theme = name;
    else delete document.documentElement.dataset.theme;
    theme.textContent = `Colours: ${themes[name]}`;
  }

  function tellUnfold() {
    const some = configs.some(({ element }) => !element.hidden && !element.open);
    unfold.textContent = some ? "Unfold all" : "Fold all";
    return some;
  }

  form.addEventListener("input", () => { at = ""; filter(); remember(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { at = ""; filter(); remember(); form.elements.q.focus(); }));
  theme.addEventListener("click", () => {
    const names = Object.keys(themes);
    setTheme(names[(names.indexOf(document.documentElement.dataset.theme ?? "") + 1) % names.length]);
    remember();
  });
  unfold.addEventListener("click", () => {
    const some = tellUnfold();
    for (const { element } of configs) if (!element.hidden) element.open = some;
    tellUnfold();
  });
  byId("results").closest("section").addEventListener("toggle", tellUnfold, true);
  document.addEventListener("click", (event) => {
    const cell = event.target.closest("a[href^='#'], #heat td");
    if (!cell) return;
    const id = cell.matches("a") ? decodeURIComponent(cell.getAttribute("href").slice(1)) : cell.parentElement.dataset.of;
    event.preventDefault();
    open(id);
    remember();
  });
  window.addEventListener("hashchange", restore);
  // what is scrolled to must not lie below the filters, which stay on top
  new ResizeObserver(() => {
    const isOnTop = getComputedStyle(form).position === "sticky";
    document.documentElement.style.scrollPaddingTop = isOnTop ? `${form.offsetHeight + 8}px` : "8px";
  }).observe(form);

  for (const element of [form, unfold, theme]) element.hidden = false;
  restore();
  filter();
  tellUnfold();
})();
