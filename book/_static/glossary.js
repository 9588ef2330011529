// The tooltips are Bootstrap's, created by the theme. Added here: on a touch screen the first tap shows the
// definition and the second one follows the link; Escape hides it.
(() => {
  const tooltip = (link) => window.bootstrap?.Tooltip.getInstance(link);
  let pointer = "";
  let tapped = null;
  document.addEventListener("pointerdown", (event) => {
    pointer = event.pointerType;
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.glossary-term");
    if (tapped && tapped !== link) {
      tooltip(tapped)?.hide();
      tapped = null;
    }
    const touched = pointer === "touch" && event.detail > 0; // Enter makes clicks with detail 0
    if (link && link !== tapped && touched && tooltip(link)) {
      event.preventDefault();
      tooltip(link).show();
      tapped = link;
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const link of document.querySelectorAll("a.glossary-term[aria-describedby]")) {
      tooltip(link)?.hide();
    }
  });
})();
