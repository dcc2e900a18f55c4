"use strict";
(() => {
  const told = JSON.parse(document.getElementById("told").textContent);
  const table = document.getElementById("runs");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const filters = ["system", "mode", "kind"].map((name) => document.getElementById(name));
  const name = document.getElementById("name");
  let ticked = [];

  const cell = (tag, text, kind) => {
    const made = document.createElement(tag);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };

  function filter() {
    let shown = 0;
    for (const row of rows) {
      const fits = filters.every((one) => !one.value || row.dataset[one.id] === one.value);
      row.hidden = !(fits && row.dataset.name.includes(name.value));
      shown += !row.hidden;
    }
    document.getElementById("shown").textContent = `${shown} of ${rows.length}`;
  }

  function sort(button) {
    const head = button.parentElement;
    const down = head.ariaSort === "ascending" || (!head.ariaSort && button.dataset.number);
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => row.cells[Number(button.dataset.column) + 1].dataset.value;
    const order = button.dataset.number ? (a, b) => value(a) - value(b) : (a, b) => value(a).localeCompare(value(b), "en", { numeric: true });
    rows.sort((a, b) => (down ? -order(a, b) : order(a, b)));
    body.append(...rows);
  }

  function compare() {
    const pair = ticked.map((row) => told[row.dataset.run]);
    document.getElementById("pair").hidden = pair.length < 2;
    const shown = document.getElementById("pair-table");
    shown.replaceChildren();
    if (pair.length < 2) return;
    const head = shown.createTHead().insertRow();
    head.append(cell("th", ""));
    for (const run of pair) {
      const of = cell("th", run.href ? "" : run.name);
      if (run.href) {
        const link = cell("a", run.name);
        link.href = run.href;
        of.append(link);
      }
      head.append(of);
    }
    const lines = shown.createTBody();
    for (const part of ["verdict", "faults", "settings"]) {
      const names = [...new Set(pair.flatMap((run) => Object.keys(run.told[part] ?? {})))];
      if (!names.length) continue;
      const title = lines.insertRow();
      title.className = "part";
      title.append(cell("th", part === "verdict" ? "verdict and figures" : part));
      for (const each of names) {
        const values = pair.map((run) => (run.told[part] ?? {})[each] ?? "–");
        const line = lines.insertRow();
        line.append(cell("th", part === "faults" ? `#${each}` : each));
        values.forEach((value, at) => line.append(cell("td", value, each === "verdict" ? pair[at].kind : "")));
        if (part === "settings" && values[0] !== values[1]) line.className = "differs";
      }
    }
  }

  body.addEventListener("change", (event) => {
    const row = event.target.closest("tr");
    ticked = ticked.filter((one) => one !== row);
    if (event.target.checked) ticked.push(row);
    for (const old of ticked.splice(0, Math.max(0, ticked.length - 2))) old.querySelector("input").checked = false;
    compare();
  });
  for (const one of [...filters, name]) one.addEventListener("input", filter);
  for (const button of table.querySelectorAll("th button")) button.addEventListener("click", () => sort(button));
  // A browser that comes back to the page has kept its ticks and choices.
  addEventListener("pageshow", () => {
    ticked = rows.filter((row) => row.querySelector("input").checked).slice(0, 2);
    filter();
    compare();
  });
})();
