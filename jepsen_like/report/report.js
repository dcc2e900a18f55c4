"use strict";
(() => {
  const data = JSON.parse(document.getElementById("readings").textContent);
  const svg = document.getElementById("overview");
  const cursor = document.getElementById("cursor");
  const reading = document.getElementById("reading");
  const figure = svg.parentElement;
  const [left, right, end] = ["left", "right", "end"].map((name) => Number(svg.dataset[name]));
  const rate = (value) => Math.round(value).toLocaleString("en");
  const ms = (value) => (value === null || value === undefined ? "–" : `${value} ms`);

  svg.addEventListener("pointermove", (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const t = ((point.x - left) / (right - left)) * end;
    const shown = t >= 0 && t <= end;
    cursor.setAttribute("visibility", shown ? "visible" : "hidden");
    reading.hidden = !shown;
    if (!shown) return;
    cursor.setAttribute("x1", point.x);
    cursor.setAttribute("x2", point.x);
    const at = Math.floor(t / data.bucket_s);
    const lines = [`${t.toFixed(2)} s`];
    if (at < data.ok.length) {
      lines.push(`acknowledged ${rate(data.ok[at])}/s`);
      if (data.lost[at]) lines.push(`of these lost ${rate(data.lost[at])}/s`);
      if (data.fail[at]) lines.push(`refused ${rate(data.fail[at])}/s`);
      if (data.info[at]) lines.push(`unknown ${rate(data.info[at])}/s`);
      lines.push(`p50 ${ms(data.p50[at])}   p99 ${ms(data.p99[at])}`);
    }
    const led = data.leaders.filter((entry) => entry[0] <= t).pop();
    if (led) lines.push(`newest leader n${led[1]}, term ${led[2]}`);
    for (const [begin, until, title] of data.faults) if (begin <= t && t <= until) lines.push(title);
    reading.textContent = lines.join("\n");
    const box = figure.getBoundingClientRect();
    const x = event.clientX - box.left + figure.scrollLeft;
    const over = event.clientX - box.left > box.width / 2;
    reading.style.left = over ? "auto" : `${x + 16}px`;
    reading.style.right = over ? `${box.width - x + 16}px` : "auto";
  });
  svg.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    reading.hidden = true;
  });

  // A fault is one thing in two places: its band and its row light up together.
  for (const row of document.querySelectorAll("[data-fault]")) {
    const same = document.querySelectorAll(`[data-fault="${row.dataset.fault}"]`);
    row.addEventListener("pointerenter", () => same.forEach((one) => one.classList.add("lit")));
    row.addEventListener("pointerleave", () => same.forEach((one) => one.classList.remove("lit")));
  }
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const code = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(code); // a page opened from disk may not write the clipboard
        button.textContent = "selected";
      }
    });
  }
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => (one.open = true)));
})();
