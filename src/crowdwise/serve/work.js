"use strict";
// One item at a time, by keyboard: a lead checks labels, an annotator answers questions.
// Everything that strangers wrote is set as text, never as markup.
(() => {
  if ("leaving" in document.body.dataset) return;
  const checks = document.body.dataset.mode === "check";
  // Named with every answer: where somebody else has signed in since, in another tab, it is refused.
  const me = document.body.dataset.who;
  const find = (id) => document.getElementById(id);
  const make = (tag, words) => {
    const element = document.createElement(tag);
    if (words !== undefined) element.textContent = words;
    return element;
  };
  const classes = JSON.parse(find("choices").dataset.classes);
  const queue = [];
  let at = 0;
  let busy = false;

  const LINK = /^https?:\/\/[^\s"'<>]+$/;
  const IMAGE = /\.(png|jpe?g|gif|webp)(\?[^\s"'<>]*)?$/i;
  function part(value) {
    if (LINK.test(value) && IMAGE.test(value)) {
      const image = make("img");
      image.src = value;
      image.alt = value;
      image.referrerPolicy = "no-referrer";
      return image;
    }
    if (LINK.test(value)) {
      const link = make("a", value);
      link.href = value;
      link.target = "_blank";
      link.rel = "noopener noreferrer";
      return link;
    }
    return make("bdi", value);
  }
  function say(words, wrong) {
    find("status").textContent = words;
    find("status").className = wrong ? "status lost" : "status";
  }
  async function call(method, path, body) {
    const options = { method, headers: { "Content-Type": "application/json" } };
    if (body !== undefined) options.body = JSON.stringify(body);
    const answer = await fetch(path, options);
    if (answer.status === 401 || answer.status === 403) location.assign("/");
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error || "error " + answer.status);
    return found;
  }

  // Answers are given there; this page only says what is next.
  const elsewhere = (question) => !checks && question !== undefined && question.url !== undefined;

  function show() {
    const question = queue[at];
    const empty = question === undefined;
    find("choices").hidden = empty || elsewhere(question);
    find("back").hidden = !checks || at === 0;
    if (empty || (elsewhere(question) && find("content").dataset.item === question.item)) return;
    find("content").dataset.item = question.item;
    const title = make("h2");
    title.append(make("bdi", question.item));
    const list = make("dl");
    for (const [key, value] of Object.entries(question.content || {})) {
      const place = make("dd");
      place.append(part(value));
      list.append(make("dt", key), place);
    }
    if (question.url !== undefined) {
      const place = make("dd");
      place.append(part(question.url));
      list.append(make("dt", checks ? "Look at it in Label Studio" : "Answer it in Label Studio"), place);
    }
    find("content").replaceChildren(title, list);
    for (const button of find("choices").children) {
      button.setAttribute("aria-pressed", String(question.chosen === button.value));
    }
  }
  function facts(audit) {
    if (!checks || audit === null || audit === undefined) return;
    find("done").max = audit.drawn;
    find("done").value = audit.checked;
    const proven = audit.counted > 0 ? "; proven right: " + (100 * audit.certified).toFixed(1) + " %" : "";
    find("count").textContent = audit.checked + " of " + audit.drawn + " checked" + proven;
    const moment = new Date(1000 * audit.began).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
    const later = audit.later > 0 ? "; the " + audit.later + " votes since are not in them" : "";
    find("frozen").textContent = "Checked are the labels of the last fit before " + moment + later + ".";
  }

  async function more() {
    try {
      if (checks) {
        const found = await call("GET", "/audit?n=20");
        facts(found.audit);
        const there = new Set(queue.map((one) => one.item));
        for (const one of found.items) if (!there.has(one.item)) queue.push(one);
        if (queue[at] === undefined) {
          const none = found.audit === null;
          find("content").replaceChildren(make("p", none ? "No audit has begun." : "Every drawn label is checked."));
        }
        find("begin").hidden = found.audit !== null && queue[at] !== undefined;
      } else {
        const found = await call("GET", "/next?annotator=" + encodeURIComponent(me));
        if (found.item === null) {
          find("content").replaceChildren(make("p", found.why));
          delete find("content").dataset.item;
          setTimeout(more, 5000);
        } else {
          queue.length = at;
          queue.push(found);
          if (elsewhere(found)) setTimeout(more, 3000);
        }
      }
      show();
    } catch (problem) {
      say(problem.message, true);
      setTimeout(more, 3000);
    }
  }
  async function answer(choice) {
    const question = queue[at];
    if (busy || question === undefined || elsewhere(question)) return;
    busy = true;
    try {
      if (checks) {
        facts((await call("POST", "/checks", { item: question.item, label: choice })).audit);
      } else {
        const key = question.key || (question.key = Date.now().toString(36) + Math.random().toString(36).slice(2));
        const given = choice === null ? { action: "skip" } : { label: choice };
        await call("POST", "/votes", { item: question.item, annotator: me, key, ...given });
      }
      question.chosen = choice;
      at += 1;
      say(choice === null ? "skipped" : "saved");
      show();
      if (at >= queue.length) await more();
    } catch (problem) {
      say(problem.message, true);
    } finally {
      busy = false;
    }
  }

  // Classes that are digits are chosen by themselves: the key 1 for the class 0 would be a trap.
  const digits = classes.every((label) => /^[0-9]$/.test(label));
  const keys = classes.map((label, place) => (digits ? label : place < 9 ? String(place + 1) : ""));
  classes.forEach((label, place) => {
    const button = make("button");
    button.type = "button";
    button.value = label;
    if (keys[place]) button.append(make("kbd", keys[place]));
    button.append(make("bdi", label));
    button.addEventListener("click", () => answer(label));
    find("choices").append(button);
  });
  const last = checks ? "?" : "s";
  if (!classes.includes(last) || !checks) {
    const button = make("button");
    button.type = "button";
    button.value = last;
    button.append(make("kbd", last), make("span", checks ? "cannot tell" : "skip"));
    button.addEventListener("click", () => answer(checks ? "?" : null));
    find("choices").append(button);
  }
  function back() {
    at = Math.max(at - 1, 0);
    show();
  }
  find("back").addEventListener("click", back);
  find("begin").addEventListener("click", async () => {
    try {
      await call("POST", "/audit");
      queue.length = 0;
      at = 0;
      find("begin").hidden = true;
      await more();
    } catch (problem) {
      say(problem.message, true);
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "BUTTON" && event.key === "Enter") return;
    const place = keys.indexOf(event.key);
    if (place >= 0) answer(classes[place]);
    else if (event.key === last) answer(checks ? "?" : null);
    else if (event.key === "ArrowLeft" && checks) back();
    else return;
    event.preventDefault();
  });
  if (checks) {
    const source = new EventSource("/events");
    source.addEventListener("audit", () => call("GET", "/audit?n=1").then((found) => facts(found.audit)).catch(() => {}));
  }
  more();
})();
