// Formulas that pymdownx.arithmatex has marked: \( ... \) in a line, \[ ... \] on lines of their own.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const marked = element.textContent.trim();
    katex.render(marked.slice(2, -2), element, { displayMode: marked.startsWith("\\["), throwOnError: false });
  }
});
