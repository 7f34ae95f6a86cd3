"use strict";
// The dashboard: the server renders, this fetches what has changed when the server says that something has.
(() => {
  const status = document.getElementById("status");
  if (status === null || "leaving" in document.body.dataset) return;
  const EVERY = 1000;
  let due = false;
  let last = 0;

  async function refresh() {
    due = false;
    last = Date.now();
    try {
      const answer = await fetch("/live", { headers: { Accept: "text/html" } });
      if (answer.status === 401 || answer.status === 403) return location.reload();
      if (!answer.ok) return later();
      const made = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of made.querySelectorAll("[data-part]")) {
        const there = document.querySelector('[data-part="' + part.dataset.part + '"]');
        if (there !== null && there.innerHTML !== part.innerHTML) there.replaceWith(part);
      }
      status.textContent = "live";
      status.className = "status";
    } catch (problem) {
      later();
    }
  }
  function later() {
    if (due) return;
    due = true;
    setTimeout(refresh, Math.max(EVERY - (Date.now() - last), 0));
  }

  const source = new EventSource("/events");
  for (const kind of ["votes", "fit", "progress", "annotators", "plan", "audit", "check", "file", "reload", "failed"]) {
    source.addEventListener(kind, later);
  }
  source.addEventListener("open", () => {
    status.textContent = "live";
    status.className = "status";
    later();
  });
  source.addEventListener("error", () => {
    status.textContent = "the connection is lost; trying again";
    status.className = "status lost";
  });
})();
