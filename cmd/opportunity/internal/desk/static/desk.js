// Keyboard shortcuts, leases and drafts of the desk. Every page works without this script.
const form = document.querySelector("form[data-review]");
const keys = document.body.hasAttribute("data-keys");
let pending = ""; // first key of a sequence: g or f

function typing(element) {
  return element.isContentEditable || element.matches("textarea, select, input:not([type=radio], [type=checkbox], [type=submit])");
}

// Sources

const sources = [...document.querySelectorAll(".source")];
const marked = source => source.querySelector(".marks input:checked") !== null;
let current = Math.max(0, sources.findIndex(source => !marked(source)));

function select(index) {
  if (index < 0 || index >= sources.length) return;
  sources[current].classList.remove("current");
  current = index;
  sources[current].classList.add("current");
  sources[current].scrollIntoView({ block: "nearest" });
}

function opened(source) {
  const seen = source.querySelector(".opened") ?? source.querySelector(".open").parentElement.appendChild(document.createElement("span"));
  seen.className = "opened";
  seen.textContent = " opened";
}

const focused = () => document.activeElement?.closest("[data-fact]");

// openSource opens the quote of the fact that has the focus, or else the current source.
function openSource() {
  const link = focused()?.querySelector("[data-quote]") ?? sources[current]?.querySelector(".open");
  if (link) link.click(); // an ordinary link, with noopener and noreferrer
}

function mark(key) {
  const choice = sources[current]?.querySelector(`.marks input[data-key="${key}"]`);
  if (!choice) return;
  set(choice);
  const next = sources.findIndex((source, i) => i > current && !marked(source));
  if (next > 0) select(next);
}

function set(choice, checked = true) {
  choice.checked = checked;
  return choice.dispatchEvent(new Event("input", { bubbles: true }));
}

// Keys

function goTo(key) {
  const page = { q: "/queue", n: "/next", c: "/candidates/next" }[key];
  if (page) location.assign(page);
}

function goToFact(key) {
  const choice = form?.querySelector(`[data-fact="${key}"] input[type=radio]`);
  if (!choice) return goToField(form?.querySelector(`[data-fact="${key}"] :is(input, select)`));
  for (let box = choice.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  choice.closest("[data-fact]").scrollIntoView({ block: "center" });
  (form.querySelector(`[data-fact="${key}"] input[type=radio]:checked`) ?? choice).focus();
}

function goToField(field) {
  field?.focus();
  field?.select?.();
}

// decide chooses a value of the fact that has the focus. It reports whether the key is one of its values.
function decide(key) {
  const fact = focused();
  const choice = fact?.querySelector(`input[data-key="${key}"]`);
  if (!choice) return false;
  if (choice.type === "checkbox") return set(choice, !choice.checked); // a quote; the value comes next
  set(choice);
  if (choice.value === "change") {
    const first = fact.querySelector(".change :is(input, textarea, select)");
    first?.focus();
    first?.select?.(); // what is preset is typed over
  }
  else document.activeElement.blur(); // the next key is one of the page again
  return true;
}

function act(key) {
  if (key === "?") return location.assign("/help");
  if (key === "g" || (key === "f" && form)) return void (pending = key);
  if (!form) return;
  if (decide(key)) return;
  switch (key) {
    case "o": return openSource();
    case "1": case "2": case "3": case "4": return focused() ? undefined : mark(key); // only outside of the facts
    case "j": return select(current + 1);
    case "k": return select(current - 1);
    case "m": return document.getElementById("note").focus();
    case "u": {
      const rest = document.getElementById("rest");
      return set(rest, !rest.checked);
    }
    case "v": case "c": case "e": case "r": return set(document.querySelector(`#outcome input[data-key="${key}"]`));
  }
}

document.addEventListener("keydown", event => {
  if (!keys || event.isComposing || event.altKey || event.metaKey) return;
  if (event.key === "Enter" && event.ctrlKey) {
    if (!form || !form.contains(event.target) && event.target !== document.body) return;
    event.preventDefault();
    return form.requestSubmit(document.getElementById("submit"));
  }
  if (event.key === "Escape") return void document.activeElement?.blur();
  if (event.ctrlKey || event.key.length !== 1 || event.key === " " || typing(event.target)) return;
  const sequence = pending;
  pending = "";
  event.preventDefault();
  if (sequence === "g") return goTo(event.key);
  if (sequence === "f") return goToFact(event.key);
  act(event.key);
});

// After mistakes, the focus is at the first one: at the field, or at the decision about a fact.
const mistake = document.getElementById(document.querySelector(".error-summary a")?.hash.slice(1));
if (mistake) {
  for (let box = mistake.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  const fields = "input:not([type=hidden]), select, textarea";
  const changed = mistake.querySelector("input[value=change]:checked") && mistake.querySelector(`.change :is(${fields})`);
  const field = changed ?? (mistake.matches(fields) ? mistake : mistake.querySelector("input:checked") ?? mistake.querySelector(fields));
  field?.focus();
}

// Drafts and leases

if (form) {
  if (keys && sources.length > 0) select(current);
  for (const link of form.querySelectorAll("[data-open]")) link.addEventListener("click", () => opened(link.closest(".source")));

  const status = document.getElementById("saved");
  let waiting, submitted = false;
  const send = address => fetch(address, { method: "POST", body: new URLSearchParams(new FormData(form)), keepalive: true });
  const save = async () => {
    clearTimeout(waiting);
    waiting = undefined;
    if (submitted) return;
    try {
      const response = await send(form.dataset.draft);
      status.textContent = response.ok && !response.redirected ? "Draft saved" : "Draft not saved";
    } catch {
      status.textContent = "Draft not saved";
    }
  };
  const will = document.querySelector("#will output");
  let latest = 0, asking;
  const summarize = async () => {
    const mine = ++latest;
    const response = await send(form.dataset.summary);
    if (mine === latest && response.ok && !response.redirected) will.textContent = await response.text();
  };
  const ask = pause => {
    clearTimeout(asking);
    asking = setTimeout(() => summarize().catch(() => {}), pause);
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
