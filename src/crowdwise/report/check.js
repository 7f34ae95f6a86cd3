"use strict";
// One item at a time; keys choose and move. Everything that strangers wrote is set as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("table-data").textContent);
  const UNCLEAR = "?";
  const store = "crowdwise-audit " + data.name + " " + data.design;
  const find = (id) => document.getElementById(id);
  const answers = new Map(data.rows.filter((row) => row.known !== null).map((row) => [row.draw, row.known]));
  try {
    for (const [draw, label] of JSON.parse(localStorage.getItem(store) || "[]")) answers.set(draw, label);
  } catch (problem) {
    // A browser may refuse to store; the answers then live as long as the page.
  }
  let at = Math.max(data.rows.findIndex((row) => !answers.has(row.draw)), 0);

  const make = (tag, words) => {
    const element = document.createElement(tag);
    if (words !== undefined) element.textContent = words;
    return element;
  };
  const part = (kind, value) => {
    if (kind === "image") {
      const image = make("img");
      image.src = value;
      image.alt = value;
      image.referrerPolicy = "no-referrer";
      return image;
    }
    if (kind === "link") {
      const link = make("a", value);
      link.href = value;
      link.target = "_blank";
      link.rel = "noopener noreferrer";
      return link;
    }
    return make("bdi", value);
  };

  function show() {
    const row = data.rows[at];
    const title = make("h2");
    title.append(make("bdi", row.item));
    const list = make("dl");
    for (const [key, kind, value] of row.shown) {
      const place = make("dd");
      place.append(part(kind, value));
      list.append(make("dt", key), place);
    }
    if (row.proposed !== null) list.append(make("dt", "proposed label"), make("dd", row.proposed));
    find("content").replaceChildren(title, list);
    const chosen = answers.get(row.draw);
    for (const button of find("choices").children) {
      button.setAttribute("aria-pressed", String(button.value === String(choice(chosen))));
    }
    find("done").max = data.rows.length;
    find("done").value = answers.size;
    find("count").textContent = "item " + (at + 1) + " of " + data.rows.length + ", " + answers.size + " answered";
    find("back").disabled = at === 0;
    find("next").disabled = at === data.rows.length - 1;
  }
  // A class may be called "?": buttons go by place.
  const choice = (label) => (label === undefined ? "" : data.classes.includes(label) ? data.classes.indexOf(label) : UNCLEAR);

  function move(step) {
    at = Math.min(Math.max(at + step, 0), data.rows.length - 1);
    show();
  }
  function answer(label) {
    if (label === null) answers.delete(data.rows[at].draw);
    else answers.set(data.rows[at].draw, label);
    try {
      localStorage.setItem(store, JSON.stringify([...answers]));
    } catch (problem) {
      // See above.
    }
    if (label === null) show();
    else move(1);
  }

  // Classes that are digits are chosen by themselves: the key 1 for the class 0 would be a trap.
  const digits = data.classes.every((label) => /^[0-9]$/.test(label));
  const keys = data.classes.map((label, place) => (digits ? label : place < 9 ? String(place + 1) : ""));
  data.classes.forEach((label, place) => {
    const button = make("button");
    button.type = "button";
    button.value = String(place);
    if (keys[place]) button.append(make("kbd", keys[place]));
    button.append(make("bdi", label));
    button.addEventListener("click", () => answer(label));
    find("choices").append(button);
  });
  if (!data.classes.includes(UNCLEAR)) {
    const button = make("button");
    button.type = "button";
    button.value = UNCLEAR;
    button.append(make("kbd", "?"), make("span", "cannot tell"));
    button.addEventListener("click", () => answer(UNCLEAR));
    find("choices").append(button);
  }

  // A spreadsheet would run cells that begin so; reading the file back takes the quote off.
  const cell = (value) => {
    const text = String(value);
    const harmless = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(text) || !/^[=+\-@\t\r]/.test(text);
    return '"' + (harmless ? text : "'" + text).replaceAll('"', '""') + '"';
  };
  function download() {
    const lines = [["item", "true label", "draw", "stratum", "weight", "design"]];
    for (const row of data.rows) {
      lines.push([row.item, answers.get(row.draw) ?? "", row.draw, row.stratum, row.weight, data.design]);
    }
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([lines.map((line) => line.map(cell).join(",")).join("\n") + "\n"], { type: "text/csv" }));
    link.download = data.name + "-answers.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  find("back").addEventListener("click", () => move(-1));
  find("next").addEventListener("click", () => move(1));
  find("download").addEventListener("click", download);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const place = keys.indexOf(event.key);
    if (place >= 0) answer(data.classes[place]);
    else if (event.key === UNCLEAR && !data.classes.includes(UNCLEAR)) answer(UNCLEAR);
    else if (event.key === "ArrowRight") move(1);
    else if (event.key === "ArrowLeft") move(-1);
    else if (event.key === "Backspace" || event.key === "Delete") answer(null);
    else return;
    event.preventDefault();
  });
  show();
})();
