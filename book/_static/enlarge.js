/* Figures and wide tables open in a larger view: by the button that appears on them, by a click on
   a figure, or by Enter or the space bar while the box that scrolls has the focus. The style
   sheet fades the side on which a box goes on, and keeps short cells of tables on one line and, on a phone, columns with long texts wide. */
"use strict";

(function () {
  const SHORT = 12, LONG = 18; // letters
  let dialog, content, opener;

  function build() {
    dialog = document.createElement("dialog");
    dialog.className = "enlarged";
    const close = document.createElement("button");
    close.type = "button";
    close.className = "enlarged-close";
    close.textContent = "Close";
    close.addEventListener("click", () => dialog.close());
    content = document.createElement("div");
    content.className = "enlarged-content bd-article";
    content.tabIndex = 0;
    content.setAttribute("role", "region");
    dialog.append(close, content);
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close(); // outside the content
    });
    dialog.addEventListener("close", () => {
      content.replaceChildren();
      opener?.focus();
    });
    document.body.append(dialog);
  }

  function open(element, name, from) {
    if (!dialog) build();
    opener = from;
    const copy = element.cloneNode(true);
    for (const each of copy.querySelectorAll("[id]")) each.removeAttribute("id");
    copy.removeAttribute("id");
    content.setAttribute("aria-label", name);
    dialog.setAttribute("aria-label", name);
    content.append(copy);
    dialog.showModal();
    content.scrollTo(0, 0);
  }

  /** Mark the sides on which a box goes on beyond its edge; `look` learns whether there are any. */
  function fade(box, look) {
    const mark = () => {
      const hidden = box.scrollWidth - box.clientWidth; // pixels
      look?.(hidden > 1);
      box.classList.toggle("more-before", box.scrollLeft > 1);
      box.classList.toggle("more-after", hidden - box.scrollLeft > 1);
    };
    new ResizeObserver(mark).observe(box);
    box.addEventListener("scroll", mark, { passive: true });
  }

  /** Put a button on a box; `part` is what opens, `always` whether it is there when all fits. */
  function offer(box, part, kind, always) {
    const name = `Larger view of this ${kind}`;
    let frame = box.closest(".results-table"); // its style sheet expects the box as a child
    if (!frame) {
      frame = document.createElement("div");
      box.replaceWith(frame);
      frame.append(box);
    }
    frame.classList.add("enlarge-frame");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "enlarge";
    button.setAttribute("aria-label", name);
    button.title = name;
    frame.append(button);
    button.addEventListener("click", () => open(part, name, button));
    box.addEventListener("keydown", (event) => {
      if (event.target !== box || button.hidden || ![" ", "Enter"].includes(event.key)) return;
      event.preventDefault();
      open(part, name, box);
    });
    if (always) {
      box.addEventListener("click", (event) => {
        if (event.target.localName === "img") open(part, name, button);
      });
    }
    const caption = part.localName === "table" && part.caption;
    fade(box, (hidden) => {
      if (caption) box.style.setProperty("--caption-height", `${caption.offsetHeight}px`);
      button.hidden = !always && !hidden;
    });
  }

  for (const figure of document.querySelectorAll(".bd-article .figure-box")) {
    offer(figure, figure, "figure", true);
  }
  for (const table of document.querySelectorAll(".bd-article table")) {
    const box = table.closest('.results-table > [role="region"], .pst-scrollable-table-container');
    if (!box) continue;
    for (const cell of table.querySelectorAll("td, th")) {
      const letters = cell.textContent.trim().length;
      cell.classList.toggle("short", letters <= SHORT);
      cell.classList.toggle("long", letters > LONG);
    }
    offer(box, table, "table", false);
  }
  for (const equation of document.querySelectorAll(".bd-article mjx-container[tabindex]")) fade(equation);
})();
