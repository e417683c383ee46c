"use strict";
(() => {
const make = (tag, words, ...inner) => {
  const made = Object.assign(document.createElement(tag), words);
  made.append(...inner);
  return made;
};
const tools = (before, label, ...others) => {
  const find = make("input", {type: "search", autocomplete: "off"});
  before.before(make("div", {className: "tools"}, make("label", {}, label, find), ...others));
  return find;
};
const select = (label, texts) => {
  const made = make("select", {}, ...texts.map((text) => make("option", {}, text)));
  return [make("label", {}, label, made), made];
};
const words = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
const compare = new Intl.Collator(undefined, {numeric: true}).compare;

// maps: find, filter and sort pod managers; squares by the arrow keys
for (const section of document.querySelectorAll("main > section")) {
  const cards = [...section.querySelectorAll(".podm")];
  const zones = [...section.querySelectorAll(".zone")];
  if (cards.length < 5) continue;
  const texts = new Map(cards.map((card) => [card, (card.parentElement.parentElement
    .querySelector(".name")?.textContent + " " + card.textContent).toLowerCase()]));
  const tags = new Set(cards.flatMap((card) =>
    [...card.querySelectorAll("summary .tag")].map((tag) => tag.textContent)));
  const [showLabel, show] = select("Show", ["all", "with usable blocks", ...[...tags].sort()]);
  const [sortLabel, sort] = select("Sort by", ["order of the page", "name", "most usable", "least usable"]);
  const usable = (card) => parseInt(card.querySelector(".count").textContent.replaceAll(",", ""), 10) || 0;
  const find = tools(zones[0] || cards[0].parentElement, "Find a pod manager, zone, model or node", showLabel, sortLabel);
  const shown = (card) => words(find.value).every((word) => texts.get(card).includes(word)) &&
    (show.selectedIndex === 0 || (show.selectedIndex === 1 ? usable(card) > 0
      : [...card.querySelectorAll("summary .tag")].some((tag) => tag.textContent === show.value)));
  const count = make("p", {className: "note", role: "status"});
  find.closest(".tools").after(count);
  const apply = () => {
    for (const card of cards) card.hidden = !shown(card);
    for (const zone of zones) {
      const left = [...zone.querySelectorAll(".podm")].filter((card) => !card.hidden).length;
      zone.hidden = !left;
      if (find.value || show.selectedIndex) zone.open = true;
    }
    const left = cards.filter((card) => !card.hidden).length;
    count.textContent = left < cards.length ? `${left} of ${cards.length} pod managers` : "";
  };
  const orders = [null, (a, b) => compare(a.querySelector("h3").textContent, b.querySelector("h3").textContent),
    (a, b) => usable(b) - usable(a), (a, b) => usable(a) - usable(b)];
  sort.addEventListener("change", () => {
    const order = orders[sort.selectedIndex];
    for (const parent of new Set(cards.map((card) => card.parentElement))) {
      const here = cards.filter((card) => card.parentElement === parent);
      parent.append(...(order ? here.sort(order) : here));
    }
  });
  find.addEventListener("input", apply);
  show.addEventListener("change", apply);
}
const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1};
for (const group of document.querySelectorAll(".q, .points")) {
  const stops = [...group.querySelectorAll("a, i[id], [tabindex]")];
  group.removeAttribute("aria-hidden");
  for (const one of group.querySelectorAll("i[id]")) {
    Object.assign(one, {tabIndex: 0, role: "img", ariaLabel: decodeURIComponent(one.id)});
  }
  for (const one of stops.slice(1)) one.setAttribute("tabindex", "-1");
  group.addEventListener("keydown", (event) => {
    const next = stops[stops.indexOf(document.activeElement) + (step[event.key] || NaN)];
    if (!next) return;
    event.preventDefault();
    document.activeElement.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
}

// tables: find rows, and sort them by a click on a title
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  if (rows.length < 5) continue;
  const titles = [...table.tHead.rows[0].cells];
  titles.forEach((title, column) => {
    const button = make("button", {type: "button", textContent: title.textContent});
    if (!title.textContent) return;
    title.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = title.getAttribute("aria-sort") === "ascending";
      for (const one of titles) one.removeAttribute("aria-sort");
      title.setAttribute("aria-sort", down ? "descending" : "ascending");
      const text = (row) => row.cells[column]?.textContent.replaceAll(",", "") || "";
      rows.sort((a, b) => (down ? -1 : 1) * compare(text(a), text(b)));
      body.append(...rows);
    });
  });
  if (rows.length < 15) continue;
  const find = tools(table.closest(".scroll") || table, "Find rows");
  find.addEventListener("input", () => {
    const wanted = words(find.value);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !wanted.every((word) => text.includes(word));
    }
  });
}

// an anchor of a block or node that is not drawn leads to its pod manager
const lead = () => {
  let name = location.hash.slice(1);
  while (name && !document.getElementById(name)) name = name.slice(0, Math.max(0, name.lastIndexOf("/")));
  const found = name && document.getElementById(name);
  if (!found) return;
  for (let one = found; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
  found.scrollIntoView({block: "center"});
  (found.querySelector("summary") || found).focus({preventScroll: true});
};
addEventListener("hashchange", lead);
if (location.hash) lead();

// pages of a service read themselves again, unless a reader is in a form or turns it off
const again = document.querySelector(".again");
if (again) {
  const store = (name, value) => { try { sessionStorage.setItem(name, value); } catch { /* no storage */ } };
  const stored = (name) => { try { return sessionStorage.getItem(name); } catch { return null; } };
  const box = make("input", {type: "checkbox", checked: stored("refresh") !== "no"});
  again.append(make("label", {}, box, ` every ${again.dataset.seconds} s`));
  box.addEventListener("change", () => store("refresh", box.checked ? "yes" : "no"));
  const here = location.pathname + location.search;
  const [place, opened] = JSON.parse(stored("place") || "[]");
  if (place === here) {
    document.querySelectorAll("details").forEach((one, at) => { if (at in opened) one.open = opened[at]; });
  }
  setInterval(() => {
    const active = document.activeElement;
    const busy = active && active.matches("main *, form *, .tools *");
    if (!box.checked || document.hidden || busy || document.querySelector(".tools input:not(:placeholder-shown)")?.value) return;
    const states = [...document.querySelectorAll("details")].map((one) => one.open);
    store("place", JSON.stringify([here, states]));
    location.reload();
  }, again.dataset.seconds * 1000);
}
})();
