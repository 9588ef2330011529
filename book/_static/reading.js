// Reading progress, kept in this browser only: which sections of a chapter have been on the screen, and the last one.
// A chapter is read when all its sections and its end have been on the screen. Where the browser refuses to store,
// nothing appears.
(() => {
  const KEY = "attentively.reading";
  const chapter = (path) => path.match(/\/(\d\d_\w+)\.html/)?.[1];
  const load = () => {
    try {
      return { pages: {}, ...JSON.parse(localStorage.getItem(KEY)) };
    } catch {
      return { pages: {} };
    }
  };
  const change = (edit) => {
    const state = load(); // another window may have written
    edit(state);
    try {
      localStorage.setItem(KEY, JSON.stringify(state));
    } catch {
      // The browser keeps nothing for this page.
    }
  };

  // Marks in the side bar, for chapters that are read.
  function mark() {
    const { pages } = load();
    for (const link of document.querySelectorAll(".bd-sidebar-primary nav a.internal")) {
      link.querySelector(".read-mark")?.remove();
      if (!pages[chapter(link.href)]?.read) continue;
      const sign = document.createElement("span");
      sign.className = "read-mark";
      sign.innerHTML = '<span aria-hidden="true">✓</span><span class="visually-hidden">, read</span>';
      link.append(sign);
    }
  }

  // What is seen of this chapter: each h2, and the links to other pages at its end.
  function watch(name) {
    const sections = [...document.querySelectorAll("article.bd-article > section > section[id]")];
    const end = document.querySelector(".prev-next-area");
    if (!sections.length || !end) return;
    const heading = (section) => {
      const copy = section.querySelector("h1, h2").cloneNode(true);
      copy.querySelector(".headerlink")?.remove();
      return copy.textContent.trim();
    };
    const title = heading(sections[0].parentElement);
    const names = new Map(sections.map((section) => [section.id, heading(section)])); // before equations are drawn
    const parts = new Map([...sections.map((section) => [section.querySelector("h2"), section]), [end, end]]);
    const seen = new IntersectionObserver((entries) => {
      const visible = entries.filter((entry) => entry.isIntersecting).map((entry) => parts.get(entry.target));
      if (!visible.length) return;
      change(({ pages }) => {
        const page = (pages[name] ??= { seen: [] });
        page.seen = [...new Set([...page.seen, ...visible.map((part) => part.id || "end")])];
        const all = [...sections.map((section) => section.id), "end"];
        page.read ||= all.every((id) => page.seen.includes(id));
      });
      mark();
    });
    for (const part of parts.keys()) seen.observe(part);

    // The section that is being read: the last one whose heading is above the middle of the window.
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState !== "hidden") return;
      const id = sections.filter((section) => section.getBoundingClientRect().top < innerHeight / 2).at(-1)?.id;
      if (id) change((state) => (state.last = { page: name, anchor: id, title, section: names.get(id) }));
    });
  }

  // The front page: where to continue, and the button that forgets everything.
  function offer(box) {
    const { pages, last } = load();
    const read = Object.values(pages).filter((page) => page.read).length;
    box.hidden = !last && !read;
    box.replaceChildren();
    if (box.hidden) return;
    const line = document.createElement("p");
    if (last) {
      const link = document.createElement("a");
      link.href = `${last.page}.html#${last.anchor}`;
      link.textContent = `${last.title}: ${last.section}`;
      line.append("Continue where you stopped: ", link, " · ");
    }
    line.append(`Chapters read: ${read} · `);
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Clear reading progress";
    button.title = "The progress is kept only in this browser";
    button.addEventListener("click", () => {
      localStorage.removeItem(KEY);
      mark();
      box.replaceChildren("The reading progress is cleared.");
      box.tabIndex = -1;
      box.focus();
    });
    line.append(button);
    box.append(line);
  }

  mark();
  const name = chapter(location.pathname);
  if (name) watch(name);
  const box = document.querySelector(".continue-reading");
  if (box) offer(box);
})();
