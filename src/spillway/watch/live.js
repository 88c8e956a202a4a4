"use strict";

// The content of the page, fetched again and again; what somebody chose on it stays chosen.

const EVERY_MS = 2000, HIDDEN_MS = 20000, KEY = "spillway-token";
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  sessionStorage.setItem(KEY, given);
  history.replaceState(null, "", location.pathname);
}
const token = sessionStorage.getItem(KEY) || "";
const place = document.getElementById("content"), trouble = document.getElementById("trouble");
let tag = "", timer = 0, asking = false;

// ---- what somebody chose: series that are hidden, how tables are sorted, which jobs are open

function chosen() {
  const entries = [...place.querySelectorAll(".entry.off")].map(entry =>
    [entry.closest("svg").getAttribute("aria-label"), entry.dataset.series]);
  const tables = [...place.querySelectorAll("table")].map(table => {
    const heading = table.querySelector("th[aria-sort]");
    return heading && [heading.cellIndex, heading.getAttribute("aria-sort") === "descending"];
  });
  const open = [...place.querySelectorAll("details")].map(each => each.open);
  return {entries, tables, open};
}

function chooseAgain({entries, tables, open}) {
  for (const [label, series] of entries)
    for (const svg of place.querySelectorAll("svg"))
      if (svg.getAttribute("aria-label") === label)
        for (const entry of svg.querySelectorAll(`.entry[data-series="${series}"]`)) toggle(entry);
  [...place.querySelectorAll("table")].forEach((table, at) => {
    const sorted = tables[at], heading = sorted && table.tHead.rows[0].cells[sorted[0]];
    if (!heading) return;
    sortBy(heading);
    if (sorted[1]) sortBy(heading);
  });
  [...place.querySelectorAll("details")].forEach((each, at) => { each.open = Boolean(open[at]); });
}

// ---- fetching

function say(text) {
  trouble.textContent = text;
  trouble.hidden = !text;
  place.classList.toggle("stale", Boolean(text));
}

async function refresh() {
  if (asking) return;
  asking = true;
  clearTimeout(timer);
  try {
    const headers = {Authorization: "Bearer " + token};
    if (tag) headers["If-None-Match"] = tag;
    const answer = await fetch("content", {headers, cache: "no-store", signal: AbortSignal.timeout(30000)});
    if (answer.status === 401)
      say("This page wants the token: open it by the whole address that was printed.");
    else if (answer.ok || answer.status === 304) {
      say("");
      if (answer.ok) show(await answer.text(), answer.headers.get("ETag"));
    } else say("The server said: " + answer.status + ".");
  } catch {
    say("The server of this page is gone; what is here is the last that was seen. 'spillway watch' shows the run again.");
  } finally {
    asking = false;
    timer = setTimeout(refresh, document.hidden ? HIDDEN_MS : EVERY_MS);
  }
}

function show(html, newTag) {
  const kept = chosen();
  place.innerHTML = html;
  chooseAgain(kept);
  tag = newTag || "";
  const state = place.querySelector(".state"), name = place.querySelector("h1");
  document.title = [state && state.textContent, name ? name.textContent : "Spillway"].filter(Boolean).join(" · ");
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
refresh();
