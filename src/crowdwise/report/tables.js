"use strict";
// Tables that can be searched, sorted and paged. Everything that strangers wrote is set as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("table-data").textContent);
  const ROWS = 15;
  const order = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    for (const child of children) element.append(child);
    return element;
  };
  const name = (words) => make("bdi", {}, words);
  const percent = (share) => {
    if (share === null) return "–";
    if (share > 0.999 && share < 1) return ">99.9\u00a0%";
    if (share > 0 && share < 0.001) return "<0.1\u00a0%";
    return (100 * share).toFixed(share === 0 || share === 1 ? 0 : 1) + "\u00a0%";
  };
  const whole = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const signed = (value) => (value < 0 ? "\u2212" : "+") + Math.abs(value).toFixed(2);
  const left = (element, from, to) => {
    element.style.left = 100 * from + "%";
    element.style.width = 100 * Math.max(to - from, 0.004) + "%";
    return element;
  };

  // A column: its name, the value of a row to sort by, and the cell. `found` is what a search looks at.
  function table(host, rows, spec) {
    const state = { shown: rows.slice(), page: 0, column: -1, down: false };
    const id = host.id + "-search";
    const search = make("input", { type: "search", id, autocomplete: "off", spellcheck: "false" });
    const status = make("span", { role: "status", class: "note" });
    const back = make("button", { type: "button" }, "Previous");
    const next = make("button", { type: "button" }, "Next");
    const place = make("span", { class: "note" });
    const body = make("tbody");
    const heads = spec.columns.map((column, index) => {
      const button = make("button", { type: "button" }, column.name);
      const head = make("th", { scope: "col" }, button);
      if (column.number) head.className = "number";
      button.addEventListener("click", () => {
        // Numbers are asked for largest first, and a second click turns any order round.
        state.down = state.column === index ? !state.down : Boolean(column.number);
        state.column = index;
        sort();
      });
      return head;
    });
    const caption = make("caption", {}, spec.caption);
    const frame = make("div", { class: "wide", tabindex: "0", role: "region", "aria-label": spec.caption },
      make("table", {}, caption, make("thead", {}, make("tr", {}, ...heads)), body));
    host.replaceChildren(
      make("div", { class: "tools" }, make("label", { for: id }, spec.search), search, status),
      frame,
      make("div", { class: "tools pages" }, back, place, next),
    );

    const texts = rows.map((row) => spec.found(row).join("\n").toLowerCase());
    const positions = new Map(rows.map((row, index) => [row, index]));
    function filter() {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      state.shown = rows.filter((_, index) => words.every((word) => texts[index].includes(word)));
      status.textContent = words.length ? `${whole(state.shown.length)} of ${whole(rows.length)} rows` : "";
      sort();
    }
    function sort() {
      const column = spec.columns[state.column];
      if (column) {
        const sign = state.down ? -1 : 1;
        state.shown.sort((one, other) => {
          const a = column.value(one), b = column.value(other);
          if (a === null || b === null) return a === b ? positions.get(one) - positions.get(other) : a === null ? 1 : -1;
          const by = typeof a === "number" ? a - b : order.compare(a, b);
          return sign * by || positions.get(one) - positions.get(other);
        });
      }
      heads.forEach((head, index) => {
        if (index === state.column) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
      show(0);
    }
    function show(page) {
      state.page = page;
      const first = page * ROWS, last = Math.min(first + ROWS, state.shown.length);
      body.replaceChildren(...state.shown.slice(first, last).flatMap((row, index) => line(row, first + index)));
      if (!state.shown.length) body.append(make("tr", {}, make("td", { colspan: spec.columns.length }, "Nothing found.")));
      place.textContent = state.shown.length ? `${whole(first + 1)} to ${whole(last)} of ${whole(state.shown.length)}` : "";
      back.disabled = page === 0;
      next.disabled = last >= state.shown.length;
    }
    function line(row, position) {
      const cells = spec.columns.map((column, index) => {
        const cell = make(index ? "td" : "th", index ? {} : { scope: "row" });
        if (column.number) cell.className = "number";
        cell.append(...[column.cell(row)].flat());
        return cell;
      });
      const main = make("tr", {}, ...cells);
      if (!spec.detail || !spec.has(row)) return [main];
      const below = `${host.id}-${position}`;
      const button = make("button", { type: "button", class: "why", "aria-expanded": "false", "aria-controls": below }, "explain");
      const more = make("tr", { id: below, class: "detail", hidden: "" });
      button.addEventListener("click", () => {
        const open = more.hidden;
        if (open && !more.firstChild) more.append(make("td", { colspan: spec.columns.length }, spec.detail(row)));
        more.hidden = !open;
        button.setAttribute("aria-expanded", String(open));
      });
      cells[cells.length - 1].append(" ", button);
      return [main, more];
    }
    back.addEventListener("click", () => show(state.page - 1));
    next.addEventListener("click", () => show(state.page + 1));
    search.addEventListener("input", filter);
    show(0);
  }

  // -- plain tables ---------------------------------------------------------------------------

  for (const one of data.tables || []) {
    const shown = (value) => {
      if (value === null) return "–";
      if (typeof value !== "number") return name(value);
      return Number.isInteger(value) ? whole(value) : String(Number(value.toPrecision(4)));
    };
    table(document.getElementById(one.id), one.rows, {
      caption: one.caption,
      search: "Search",
      columns: one.columns.map((column, index) => (
        { name: column.name, number: column.number, value: (row) => row[index], cell: (row) => shown(row[index]) })),
      found: (row) => row.map((value) => (value === null ? "" : String(value))),
    });
  }
  if (!data.items) return;

  // -- items ----------------------------------------------------------------------------------

  const items = data.items;
  const label = (code) => (code < 0 ? "–" : items.classes[code]);
  const votesOf = (row) => {
    const counts = new Map();
    for (const code of row[10] || []) counts.set(code, (counts.get(code) || 0) + 1);
    const sorted = [...counts].sort((a, b) => b[1] - a[1]);
    const some = sorted.slice(0, 5).flatMap(([code, count], index) => [index ? ", " : "", name(label(code)), "\u00a0×\u00a0" + count]);
    return sorted.length > 5 ? [...some, ` and ${sorted.length - 5} other label${sorted.length > 6 ? "s" : ""}`] : some;
  };
  function detail(row) {
    const sources = [[items.prior, "", row[8]], ...row[9].map((who, i) => [items.annotators[who], label(row[10][i]), row[11][i]])];
    const hidden = items.anonymous ? 0 : row[5] - row[9].length;
    const largest = Math.max(...sources.map((source) => Math.abs(source[2])), 1e-9);
    const lines = sources.map(([source, said, value]) => {
      const bar = left(make("span", { class: value < 0 ? "against" : "for" }),
        value < 0 ? 0.5 + (0.5 * value) / largest : 0.5, value < 0 ? 0.5 : 0.5 + (0.5 * value) / largest);
      return make("tr", {}, make("th", { scope: "row" }, name(source)), make("td", {}, name(said)),
        make("td", { class: "number" }, signed(value)), make("td", { class: "track", "aria-hidden": "true" }, make("div", {}, bar)));
    });
    if (hidden > 0) lines.push(make("tr", {}, make("td", { colspan: "4" }, `and ${whole(hidden)} votes that moved less`)));
    // No votes, so that they have no bar: next to theirs, those of the votes would be short.
    for (const [source, value] of row[13]) {
      lines.push(make("tr", {}, make("th", { scope: "row" }, source), make("td"), make("td", { class: "number" }, signed(value)),
        make("td", {}, items.meanings[source] || "")));
    }
    lines.push(make("tr", { class: "total" }, make("th", { scope: "row" }, "total"), make("td"),
      make("td", { class: "number" }, signed(row[12])), make("td")));
    const heading = make("caption", {}, "For ", name(label(row[1])), ", against ", name(label(row[7])), `, in ${items.unit}`);
    const head = ["Source", "Vote", "Contribution", ""].map((words) => make("th", { scope: "col" }, words));
    return make("table", { class: "explanation" }, heading, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...lines));
  }
  const known = new Map(items.rows.map((row, index) => [row, items.about ? items.about.rows[index] : []]));
  const shown = (words) => (/^https?:\/\/\S+$/.test(words) ? make("a", { href: words, rel: "noreferrer" }, words) : name(words));
  const about = (items.about ? items.about.names : []).map((title, index) => (
    { name: title, value: (row) => known.get(row)[index], cell: (row) => shown(known.get(row)[index]) }));
  if (items.rows.length) table(document.getElementById("items-table"), items.rows, {
    caption: `The ${whole(items.rows.length)} least certain of ${whole(items.total)} items`,
    search: "Search items, labels and annotators",
    columns: [
      { name: "Item", value: (row) => row[0], cell: (row) => name(row[0]) },
      ...about,
      { name: "Label", value: (row) => label(row[1]), cell: (row) => name(label(row[1])) },
      { name: "Confidence", number: true, value: (row) => row[2], cell: (row) => percent(row[2]) },
      { name: "Runner-up", value: (row) => label(row[3]),
        cell: (row) => (row[3] < 0 ? "–" : [name(label(row[3])), ` (${percent(row[4])})`]) },
      { name: "Votes", number: true, value: (row) => row[5], cell: (row) => whole(row[5]) },
      { name: "For", value: (row) => (row[10] || []).length, cell: votesOf },
      { name: "Why uncertain", value: (row) => row[6], cell: (row) => name(row[6]) },
    ],
    found: (row) => [row[0], ...known.get(row), label(row[1]), row[6], ...(row[9] || []).map((who) => items.annotators[who])],
    has: (row) => row.length > 7,
    detail,
  });

  // -- annotators -----------------------------------------------------------------------------

  const annotators = data.annotators;
  const accuracy = ([estimate, low, high], paint) => {
    if (estimate === null || low === null || high === null) return percent(estimate);
    const mark = make("i");
    mark.style.left = 100 * estimate + "%";
    const bar = make("span", { class: "span " + paint + "-bar", "aria-hidden": "true" }, left(make("b"), low, high), mark);
    return [`${percent(estimate)} (${(100 * low).toFixed(0)} to ${(100 * high).toFixed(0)})`, bar];
  };
  if (annotators.rows.length) table(document.getElementById("annotators-table"), annotators.rows, {
    caption: annotators.rows.length < annotators.total
      ? `The ${whole(annotators.rows.length)} annotators to look at first, of ${whole(annotators.total)}` : "Annotators, worst first",
    search: "Search annotators and flags",
    columns: [
      { name: "Annotator", value: (row) => row[0], cell: (row) => name(row[0]) },
      { name: "Votes", number: true, value: (row) => row[1], cell: (row) => whole(row[1]) },
      { name: "Accuracy (95 % interval)", number: true, value: (row) => row[2][0], cell: (row) => accuracy(row[2], row[8]) },
      { name: "Agrees with the labels", number: true, value: (row) => row[3], cell: (row) => percent(row[3]) },
      { name: "Bits per vote", number: true, value: (row) => row[4], cell: (row) => (row[4] === null ? "–" : row[4].toFixed(2)) },
      { name: "Worst confusion", value: (row) => row[5] || null, cell: (row) => name(row[5] || "–") },
      { name: "Flags", value: (row) => row[6] || null,
        cell: (row) => (row[6] ? [make("span", { class: "mark mark-" + (row[8] === "good" ? "weak" : row[8]) }, name(row[6])),
          make("small", {}, name(row[7]))] : "") },
    ],
    found: (row) => [row[0], row[5], row[6], row[7]],
  });
})();
