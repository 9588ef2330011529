// The search field of the theme's dialog and the page of results. The engine, the index and the style are fetched
// when a reader first opens the field, since the index is large. Without this script the field leads nowhere, and
// the page of results says so.
(() => {
  const SHOWN = 12;
  const folder = document.currentScript.src.replace(/search\.js.*$/, "");
  const root = document.documentElement.dataset.content_root;

  let loading;
  const load = () =>
    (loading ??= ["engine.js", "index.js"].reduce((before, name) => before.then(() => fetched(name)), styled()));

  function styled() {
    return new Promise((done) => {
      const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: `${folder}search.css` });
      link.onload = link.onerror = done;
      document.head.append(link);
    });
  }

  function fetched(name) {
    return new Promise((done, failed) => {
      const script = Object.assign(document.createElement("script"), { src: `${folder}${name}` });
      script.onload = done;
      script.onerror = () => failed(new Error(`${name} is missing from the folder of the book`));
      document.head.append(script);
    });
  }

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  const written = (pieces) => pieces.map(([text, hit]) => (hit ? element("mark", {}, text) : text));

  // A result: its heading, where it is, and a piece of its text, with the matches marked.
  function entry({ section }, terms, attributes) {
    const where = [section.page.title, ...section.path.slice(1)].join(" › ");
    const anchor = section.level > 1 ? `#${section.anchor}` : "";
    return element(
      "a",
      { href: `${root}${section.page.url}${anchor}`, class: "search-result", ...attributes },
      element("span", { class: "search-heading" }, ...written(BookSearch.marked(section.heading, terms))),
      element("span", { class: "search-where" }, section.level > 1 ? where : ""),
      element("span", { class: "search-excerpt" }, ...written(BookSearch.excerpt(section.text, terms))),
    );
  }

  // What a reader should know about the results, as text.
  function summary(found, query) {
    const said = found.corrected ? `No section has “${query}”. Results for “${found.corrected}”: ` : "";
    return `${said}${found.count} ${found.count === 1 ? "section" : "sections"}`;
  }

  // What to do when there are none: similar words, and pages that list everything.
  function advice(query) {
    const link = (page, name) => element("a", { href: `${root}book/${page}.html` }, name);
    const similar = BookSearch.suggest(query).flatMap((word, place) => [
      place ? ", " : "",
      element("a", { href: `${root}search.html?q=${encodeURIComponent(word)}` }, word),
    ]);
    return element(
      "div",
      { class: "search-advice" },
      ...(similar.length ? [element("p", {}, "Similar words in the book: ", ...similar, ".")] : []),
      element("p", {}, "Try fewer or other words, or look in the ", link("glossary", "glossary"), ", the ",
        link("notation", "notation"), " or the ", link("index", "list of chapters"), "."),
    );
  }

  // The dialog: a combobox. Arrows choose a result, Enter opens it; the first one is chosen from the start.
  function combine(dialog) {
    dialog.setAttribute("aria-label", "Search");
    const field = dialog.querySelector("input[name=q]");
    const list = element("div", { id: "search-list", role: "listbox", "aria-label": "Sections", hidden: "" });
    const status = element("p", { role: "status", class: "search-status" });
    const rest = element("div", { class: "search-rest" });
    dialog.append(element("div", { class: "search-panel" }, status, list, rest));
    const attributes = { role: "combobox", "aria-controls": list.id, "aria-expanded": "false", "aria-autocomplete": "list" };
    for (const [key, value] of Object.entries(attributes)) field.setAttribute(key, value);

    function choose(option) {
      list.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
      option?.setAttribute("aria-selected", "true");
      option?.scrollIntoView({ block: "nearest" });
      if (option) field.setAttribute("aria-activedescendant", option.id);
      else field.removeAttribute("aria-activedescendant");
    }

    async function update() {
      const query = field.value.trim();
      try {
        await load();
      } catch (error) {
        status.textContent = `The search does not work: ${error.message}.`;
        return;
      }
      if (query !== field.value.trim()) return; // a later letter has its own answer
      const found = query ? BookSearch.search(field.value.trimStart(), SHOWN) : { results: [], count: 0 };
      list.replaceChildren(
        ...found.results.map((result, number) =>
          entry(result, found.terms, { role: "option", id: `search-option-${number}`, tabindex: "-1", "aria-selected": "false" }),
        ),
      );
      list.hidden = !found.results.length;
      field.setAttribute("aria-expanded", String(!list.hidden));
      status.textContent = !query ? "" : found.count ? summary(found, query) : `No section has “${query}”.`;
      rest.replaceChildren();
      if (query && !found.count) rest.append(advice(query));
      if (found.count > SHOWN) {
        const all = `${root}search.html?q=${encodeURIComponent(query)}`;
        rest.append(element("a", { href: all }, "More results"));
      }
      choose(list.firstElementChild);
    }

    field.addEventListener("focus", () => load().catch(() => {}));
    field.addEventListener("input", update);
    field.addEventListener("keydown", (event) => {
      const chosen = list.querySelector("[aria-selected=true]");
      if (event.isComposing) return;
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        const down = event.key === "ArrowDown";
        choose((down ? chosen?.nextElementSibling : chosen?.previousElementSibling) ??
          (down ? list.firstElementChild : list.lastElementChild));
      } else if (event.key === "Enter" && chosen) chosen.click();
      else return;
      event.preventDefault();
    });
    list.addEventListener("click", () => dialog.close()); // the section may be on this page
  }

  // The page of results: the query is in its address.
  async function list(field, results) {
    const query = new URLSearchParams(location.search).get("q")?.trim() ?? "";
    field.value = query;
    field.focus();
    if (!query) return;
    const status = element("p", { role: "status" }, "Searching …");
    results.append(status);
    try {
      await load();
    } catch (error) {
      status.textContent = `The search does not work: ${error.message}.`;
      return;
    }
    const found = BookSearch.search(query, 60);
    status.textContent = found.count ? summary(found, query) : `No section has “${query}”.`;
    results.append(
      found.count
        ? element("ol", {}, ...found.results.map((result) => element("li", {}, entry(result, found.terms))))
        : advice(query),
    );
  }

  const dialog = document.getElementById("pst-search-dialog");
  if (dialog) combine(dialog);
  const results = document.getElementById("search-results");
  if (results) list(document.querySelector(".bd-search-container input[name=q]"), results);

  // "/" opens the field, as Ctrl+K of the theme does.
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select, [contenteditable=true]");
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || typing || dialog?.open) return;
    event.preventDefault();
    const field = document.querySelector(".bd-search-container input[name=q]");
    if (field) {
      field.focus();
      field.select();
    } else dialog?.showModal();
  });
})();
