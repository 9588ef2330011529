/* Prepares the page for paper before it is printed, and restores it afterwards. */
"use strict";

(function () {
  const PAPER = 650; // pixels of text on A4 with the margins of print.css
  const HALF = 490; // pixels: half the height between its margins
  const undo = [];

  /** Show the light page. */
  function lighten() {
    const { dataset } = document.documentElement;
    const before = dataset.theme;
    dataset.theme = "light";
    undo.push(() => { dataset.theme = before; });
  }

  /** Open the boxes whose content belongs to the text; solutions do not. */
  function open(article) {
    for (const box of article.querySelectorAll("details:is(.sd-dropdown, .widget-details):not([open], .solution)")) {
      box.open = true;
      undo.push(() => { box.open = false; });
    }
  }

  /** Copy the explanations of all options, right or wrong, and the solutions to the end. */
  function answers(article) {
    const quizzes = article.querySelectorAll(".quiz");
    const solutions = article.querySelectorAll("details.solution");
    if (!quizzes.length && !solutions.length) return;
    const list = document.createElement("ol");
    for (const quiz of quizzes) {
      const options = document.createElement("ol");
      for (const why of quiz.querySelectorAll(".quiz-why")) {
        const option = document.createElement("li");
        option.append(why.cloneNode(true));
        options.append(option);
      }
      const question = document.createElement("li");
      question.append(options);
      list.append(question);
    }
    const section = document.createElement("section");
    section.className = "print-answers";
    const heading = document.createElement("h2");
    heading.textContent = "Answers";
    section.append(heading, list);
    for (const solution of solutions) {
      const copy = solution.cloneNode(true);
      copy.classList.remove("solution");
      copy.open = true;
      section.append(copy);
    }
    for (const element of section.querySelectorAll("[id]")) element.removeAttribute("id");
    article.append(section);
    undo.push(() => section.remove());
  }

  /** Make tables smaller whose cells, with the fonts and margins of print.css, cannot be narrow enough,
      and let tables continue on the next sheet that would leave half a sheet before them empty. */
  function fit(article) {
    const style = document.createElement("style");
    style.textContent = ".bd-article table :is(td, th) { font-size: 8.5pt !important; "
      + "min-width: 0 !important; padding-inline: 5.6px !important; }";
    document.head.append(style);
    for (const table of article.querySelectorAll("table")) {
      const before = table.getAttribute("style");
      const restore = () => {
        if (before === null) table.removeAttribute("style");
        else table.setAttribute("style", before);
      };
      table.setAttribute("style", "display: table; width: min-content; max-width: none");
      const needed = table.offsetWidth;
      table.setAttribute("style", `display: table; width: ${PAPER}px; max-width: none`);
      const tall = table.offsetHeight > HALF;
      restore();
      const zoom = needed > PAPER ? `--print-zoom: ${(PAPER / needed).toFixed(3)};` : "";
      if (zoom || tall) {
        const style = `${before ?? ""}; ${zoom} ${tall ? "break-inside: auto" : ""}`;
        table.setAttribute("style", style);
        undo.push(restore);
      }
    }
    style.remove();
  }

  function prepare() {
    const article = document.querySelector(".bd-article");
    if (!article || undo.length) return;
    lighten();
    open(article);
    fit(article);
    answers(article);
  }

  function restore() {
    for (const step of undo.splice(0).reverse()) step();
  }

  window.addEventListener("beforeprint", prepare);
  window.addEventListener("afterprint", restore);
})();
