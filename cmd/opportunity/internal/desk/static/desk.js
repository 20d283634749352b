// Keyboard shortcuts, leases and drafts of the desk. Every page works without this script.
const form = document.querySelector("form[data-review]");
const keys = document.body.hasAttribute("data-keys");
const inputs = ":is(input:not([type=hidden]), textarea, select)";
let pending = ""; // first key of a sequence: g or f

function typing(element) {
  return element.isContentEditable || element.matches("textarea, select, input:not([type=radio], [type=checkbox], [type=submit])");
}

function focus(field) {
  field?.focus();
  field?.select?.(); // what is preset is typed over
}

function set(choice, checked = true) {
  choice.checked = checked;
  return choice.dispatchEvent(new Event("input", { bubbles: true }));
}

// Sources

const sources = [...document.querySelectorAll(".source")];
const checked = source => source.querySelector(".states input:checked") !== null;
let current = Math.max(0, sources.findIndex(source => !checked(source)));
let opened; // the page that was opened last

function select(index) {
  if (index < 0 || index >= sources.length) return;
  sources[current].classList.remove("current");
  current = index;
  sources[current].classList.add("current");
  sources[current].scrollIntoView({ block: "nearest" });
}

function check(key) {
  const choice = sources[current]?.querySelector(`.states input[data-key="${key}"]`);
  if (!choice) return;
  set(choice);
  const next = sources.findIndex((source, i) => i > current && !checked(source));
  if (next > 0) select(next);
}

// Facts

const facts = [...document.querySelectorAll(".fact")];
const focused = () => document.activeElement?.closest(".fact");
const decided = fact => fact.querySelector(".options input[name^='fact.']:checked") !== null;
let walking = false; // a decision leads to the next fact

function reveal(element) {
  for (let box = element.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
}

function goToFact(fact) {
  if (!fact) return;
  const radios = [...fact.querySelectorAll(".options input[type=radio]")];
  if (radios.length === 0) return focus(fact.querySelector(inputs)); // a field of the listing
  reveal(fact);
  fact.scrollIntoView({ block: "nearest" });
  (radios.find(radio => radio.checked) ?? radios[0]).focus();
}

// walk goes to the next fact without a decision. It enters those that are folded as unknown only if asked.
function walk(enter) {
  const from = focused();
  const next = facts.slice(facts.indexOf(from) + 1).find(fact => !decided(fact));
  walking = next !== undefined && (enter || next.closest(".unknown") === from?.closest(".unknown"));
  if (walking) goToFact(next);
  else document.activeElement.blur(); // the next key is one of the page again
}

// decide chooses a value or a quote of the fact that has the focus. It reports whether the key is one of its keys.
function decide(key) {
  const fact = focused();
  const choice = fact?.querySelector(`input[data-key="${key}"]`);
  if (!choice) return false;
  if (choice.type === "checkbox") return set(choice, !choice.checked); // a quote; the value comes next
  set(choice);
  if (choice.value === "change") focus(fact.querySelector(`.change ${inputs}`));
  else if (walking) walk(false);
  else document.activeElement.blur();
  return true;
}

// paste makes a text a quote of the fact that has the focus, from the page that was opened last.
function paste(event) {
  const fact = focused();
  if (!fact || typing(event.target)) return;
  const words = [...fact.querySelectorAll("textarea[name^='quote.']")].find(area => area.value === "");
  if (!words) return;
  event.preventDefault();
  words.value = event.clipboardData.getData("text");
  const page = words.closest(".entry").querySelector("select");
  page.value = [...page.options].some(option => option.value === opened) ? opened : "";
  reveal(words);
  words.dispatchEvent(new Event("input", { bubbles: true }));
}

// Keys

function act(key) {
  if (key === "?") return location.assign("/help");
  if (key === "g" || (key === "f" && form)) return void (pending = key);
  if (!form || decide(key)) return;
  const fact = focused();
  switch (key) {
    case "o": return (fact?.querySelector("[data-quote]") ?? sources[current]?.querySelector(".open"))?.click(); // an ordinary link, with noopener and noreferrer
    case "w": case "a": return form.querySelector(`[data-page="${key}"]`)?.click();
    case "1": case "2": case "3": case "4": return fact ? undefined : check(key); // only outside of the facts
    case "j": return select(current + 1);
    case "k": return select(current - 1);
    case "m": return document.getElementById("note").focus();
    case "u": return set(document.getElementById("rest"), !document.getElementById("rest").checked);
    case "v": case "c": case "e": case "r": return set(document.querySelector(`#outcome input[data-key="${key}"]`));
  }
}

document.addEventListener("keydown", event => {
  if (!keys || event.isComposing || event.altKey || event.metaKey) return;
  if (event.key === "Enter" && form && (event.target === document.body || form.contains(event.target))) {
    if (event.ctrlKey) {
      event.preventDefault();
      return form.requestSubmit(document.getElementById("submit"));
    }
    if (event.target.matches("body, input, select")) {
      event.preventDefault();
      return walk(!typing(event.target));
    }
  }
  if (event.key === "Escape") {
    walking = false;
    return document.activeElement?.blur();
  }
  if (event.ctrlKey || event.key.length !== 1 || event.key === " " || typing(event.target)) return;
  const sequence = pending;
  pending = "";
  event.preventDefault();
  if (sequence === "") return act(event.key);
  walking = false;
  if (sequence === "f") return goToFact(form?.querySelector(`[data-fact="${event.key}"]`));
  const page = { q: "/queue", n: "/next", c: "/candidates/next" }[event.key];
  if (page) location.assign(page);
});

// After mistakes, the focus is at the first one: at the field, or at the decision about a fact.
const mistake = document.getElementById(document.querySelector(".error-summary a")?.hash.slice(1));
if (mistake) {
  reveal(mistake);
  const changed = mistake.querySelector("input[value=change]:checked") && mistake.querySelector(`.change ${inputs}`);
  focus(changed ?? (mistake.matches(inputs) ? mistake : mistake.querySelector("input:checked") ?? mistake.querySelector(inputs)));
}

// Drafts and leases

if (form) {
  if (keys && sources.length > 0) select(current);
  if (keys) document.addEventListener("paste", paste);
  for (const link of form.querySelectorAll("[data-open]")) {
    link.addEventListener("click", () => {
      opened = link.dataset.open;
      const seen = link.closest(".source")?.querySelector(".seen");
      if (seen) seen.hidden = false;
    });
  }

  const status = document.getElementById("saved");
  let waiting, submitted = false;
  const send = address => fetch(address, { method: "POST", body: new URLSearchParams(new FormData(form)), keepalive: true });
  const save = async () => {
    clearTimeout(waiting);
    waiting = undefined;
    if (submitted) return;
    const response = await send(form.dataset.draft).catch(() => undefined);
    status.textContent = response?.ok && !response.redirected ? "Draft saved" : "Draft not saved";
  };
  const will = document.querySelector("#will output");
  let latest = 0, asking;
  const summarize = async () => {
    const mine = ++latest;
    const response = await send(form.dataset.summary).catch(() => undefined);
    if (mine === latest && response?.ok && !response.redirected) will.textContent = await response.text();
  };
  const ask = pause => {
    clearTimeout(asking);
    asking = setTimeout(summarize, pause);
  };
  form.addEventListener("change", () => ask(0)); // of a text: when it loses the focus
  form.addEventListener("input", event => {
    ask(typing(event.target) ? 1000 : 0);
    clearTimeout(waiting);
    waiting = setTimeout(save, 2000);
  });
  form.addEventListener("submit", () => {
    submitted = true;
    clearTimeout(waiting);
  });
  addEventListener("pagehide", () => waiting !== undefined && save());
  addEventListener("pageshow", () => (submitted = false));
  let active = false; // since the latest renewal; an idle page must not keep the session alive
  for (const kind of ["input", "keydown", "pointerdown"]) document.addEventListener(kind, () => (active = true));
  setInterval(() => {
    if (active) fetch(form.dataset.lease, { method: "POST" }).catch(() => {});
    active = false;
  }, 5 * 60 * 1000);
}
