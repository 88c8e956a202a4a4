"use strict";

// ---- legends: a click on an entry hides and shows its series

function toggle(entry) {
  const off = entry.classList.toggle("off");
  entry.setAttribute("aria-pressed", String(!off));
  const drawn = entry.closest("svg").querySelectorAll(`.series[data-series="${entry.dataset.series}"]`);
  for (const series of drawn) series.classList.toggle("off", off);
}

// ---- tables: a click on a heading sorts. Sorting is stable, so sorting by one column and then another sorts by both.

function compare(a, b) {
  const x = Number(a), y = Number(b);
  if (a !== "" && b !== "" && !Number.isNaN(x) && !Number.isNaN(y)) return x - y;
  if (a === "" || b === "") return (a === "") - (b === "");
  return a.localeCompare(b);
}

function sortBy(heading) {
  const table = heading.closest("table"), body = table.tBodies[0];
  const down = heading.getAttribute("aria-sort") === "ascending";
  const value = row => {
    const cell = row.cells[heading.cellIndex];
    return cell.dataset.sort === undefined ? cell.textContent : cell.dataset.sort;
  };
  const rows = [...body.rows].sort((a, b) => {
    const x = value(a), y = value(b);
    // What has no value stands last, either way.
    return x === "" || y === "" ? compare(x, y) : (down ? -1 : 1) * compare(x, y);
  });
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...rows);
}

// ---- panels: controls show one at a time, and controls of one name follow each other

function showChosen(panels) {
  const choice = [...panels.querySelectorAll(".controls select")].map(select => select.selectedIndex).join(",");
  for (const panel of panels.children)
    if (panel.classList.contains("panel")) panel.hidden = panel.dataset.choice !== choice;
}

function choose(name, value) {
  for (const select of document.querySelectorAll(`.panels select[name="${name}"]`)) {
    const at = [...select.options].findIndex(option => option.text === value);
    if (at >= 0) select.selectedIndex = at;
    showChosen(select.closest(".panels"));
  }
}

// ---- charts: pointing at one reads its lines' values off

const pointsOf = new WeakMap();

function points(path) {
  if (!pointsOf.has(path)) {
    const numbers = path.getAttribute("d").match(/-?[0-9.]+/g).map(Number), found = [];
    for (let i = 0; i + 1 < numbers.length; i += 2) found.push([numbers[i], numbers[i + 1]]);
    pointsOf.set(path, found);
  }
  return pointsOf.get(path);
}

function unplace(scale, pixel) {
  const [start, end, low, high, log] = scale.split(" ").map(Number), share = (pixel - start) / (end - start);
  return log ? low * Math.pow(high / low, share) : low + share * (high - low);
}

function told(value) {
  return Number(value.toPrecision(3)).toLocaleString("en", {maximumFractionDigits: 4});
}

function nearest(svg, pixel) {
  const names = [...svg.querySelectorAll(".entry title")].map(title => title.textContent), rows = [];
  let at = null;
  for (const series of svg.querySelectorAll(".series:not(.off)")) {
    const path = series.querySelector("path.line");
    if (!path) continue;
    const near = points(path).reduce((a, b) => Math.abs(b[0] - pixel) < Math.abs(a[0] - pixel) ? b : a);
    if (at === null || Math.abs(near[0] - pixel) < Math.abs(at - pixel)) at = near[0];
    rows.push([names[series.dataset.series] || "", near]);
  }
  return [at, rows.filter(([, near]) => Math.abs(near[0] - at) <= 6)];
}

function drawHair(svg, at) {
  const [bottom, top] = svg.dataset.y.split(" ").map(Number);
  const hair = document.createElementNS("http://www.w3.org/2000/svg", "line");
  for (const [name, value] of [["class", "hair"], ["x1", at], ["x2", at], ["y1", top], ["y2", bottom]])
    hair.setAttribute(name, value);
  svg.append(hair);
}

function showReadout(event, lines) {
  const out = document.createElement("div");
  out.id = "readout";
  for (const line of lines) {
    const row = document.createElement("div");
    row.textContent = line;
    out.append(row);
  }
  document.body.append(out);
  const wide = out.offsetWidth;
  const x = event.clientX + 14 + wide > innerWidth ? event.clientX - 14 - wide : event.clientX + 14;
  out.style.left = Math.max(4, x) + "px";
  out.style.top = Math.min(event.clientY + 14, innerHeight - out.offsetHeight - 4) + "px";
}

function read(event) {
  for (const old of document.querySelectorAll(".hair, #readout")) old.remove();
  const svg = event.target.closest("svg.chart[data-x]");
  if (!svg) return;
  const box = svg.getBoundingClientRect(), pixel = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
  const [left, right] = svg.dataset.x.split(" ").map(Number);
  if (pixel < left - 8 || pixel > right + 8) return;
  const [at, rows] = nearest(svg, pixel);
  if (at === null) return;
  drawHair(svg, at);
  showReadout(event, [
    "at " + told(unplace(svg.dataset.x, at)),
    ...rows.map(([name, near]) => (name ? name + ": " : "") + told(unplace(svg.dataset.y, near[1]))),
  ]);
}

// ---- what people do

document.addEventListener("change", event => {
  const select = event.target.closest(".panels select");
  if (select) choose(select.name, select.options[select.selectedIndex].text);
});
document.addEventListener("pointermove", read);
document.addEventListener("pointerdown", read);
document.addEventListener("click", event => {
  const entry = event.target.closest("svg .entry");
  if (entry) toggle(entry);
  const link = event.target.closest("svg.graph a");
  if (link && link.dataset.choice) choose("operator", link.dataset.choice);
  const button = event.target.closest("th button");
  if (button) sortBy(button.closest("th"));
});
document.addEventListener("keydown", event => {
  if (event.key !== "Enter" && event.key !== " ") return;
  const entry = event.target.closest("svg .entry");
  if (entry) {
    event.preventDefault();
    toggle(entry);
  }
});
