// Shows neighboring code blocks, such as one request in several languages, as tabs, and remembers the language. Without this script, they
// stand below each other.
const stored = "docs-language";
const groups = [];

function show(group, language) {
  const current = group.tabs.find((tab) => tab.textContent === language) ?? group.tabs[0];
  group.tabs.forEach((tab, i) => {
    tab.setAttribute("aria-selected", tab === current);
    tab.tabIndex = tab === current ? 0 : -1;
    group.panels[i].hidden = tab !== current;
  });
  return current;
}

function choose(language) {
  try {
    localStorage.setItem(stored, language);
  } catch {} // storage is disabled
  groups.forEach((group) => show(group, language));
}

for (const first of document.querySelectorAll("figure.code")) {
  if (first.previousElementSibling?.matches("figure.code")) continue;
  const figures = [first];
  while (figures.at(-1).nextElementSibling?.matches("figure.code")) figures.push(figures.at(-1).nextElementSibling);
  if (figures.length < 2) continue;
  const list = document.createElement("div");
  list.className = "languages";
  list.setAttribute("role", "tablist");
  list.setAttribute("aria-label", "Language");
  first.before(list);
  const panels = figures.map(() => document.createElement("div"));
  const tabs = figures.map((figure, i) => {
    const tab = document.createElement("button");
    tab.type = "button";
    tab.setAttribute("role", "tab");
    tab.textContent = figure.querySelector("figcaption > span").textContent;
    tab.id = `tab-${groups.length}-${i}`;
    panels[i].id = `panel-${groups.length}-${i}`;
    panels[i].setAttribute("role", "tabpanel");
    panels[i].setAttribute("aria-labelledby", tab.id);
    tab.setAttribute("aria-controls", panels[i].id);
    figure.replaceWith(panels[i]);
    panels[i].append(figure);
    tab.addEventListener("click", () => choose(tab.textContent));
    list.append(tab);
    return tab;
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs.at((tabs.indexOf(event.target) + step) % tabs.length);
    choose(next.textContent);
    next.focus();
  });
  groups.push({ tabs, panels });
}

let language;
try {
  language = localStorage.getItem(stored);
} catch {} // storage is disabled
groups.forEach((group) => show(group, language));
