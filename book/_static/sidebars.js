/* On a telephone, a side bar lies over the page. A tap on a section of the page closes it. */
document.addEventListener("click", (event) => {
  if (event.target.closest('a[href^="#"]')) {
    event.target.closest('dialog[id$="sidebar-modal"]')?.close();
  }
});
