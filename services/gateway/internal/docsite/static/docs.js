// Shows neighboring code blocks in several languages as tabs, and remembers the language. Without this script, they stand below each
// other. Outputs and other text are never tabs.
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

const program = "figure.code:has(.language-sh, .language-go, .language-js, .language-python)";
for (const first of document.querySelectorAll(program)) {
  if (first.previousElementSibling?.matches(program)) continue;
  const figures = [first];
  while (figures.at(-1).nextElementSibling?.matches(program)) figures.push(figures.at(-1).nextElementSibling);
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

// "/" and Ctrl+K put the cursor into the search. The menu shows its current entry.
const search = document.getElementById("search");
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  const slash = event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey;
  if (!search || !(slash || ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k"))) return;
  event.preventDefault();
  search.focus();
  search.select();
});
const menu = document.querySelector(".menu");
const current = menu?.querySelector("[aria-current]");
if (current) menu.scrollTop += current.getBoundingClientRect().top - menu.getBoundingClientRect().top - menu.clientHeight / 2;
