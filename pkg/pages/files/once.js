// Keeps a form from being sent twice by a double click. Without it the second one is answered as what was done already.
function enable(form, on) {
  for (const button of form.querySelectorAll("button")) button.disabled = !on;
}
document.addEventListener("submit", ({ target: form, defaultPrevented }) => {
  if (!defaultPrevented && form.method === "post") setTimeout(() => enable(form, false)); // once the browser has taken what it sends
});
window.addEventListener("pageshow", ({ persisted }) => {
  if (persisted) for (const form of document.forms) enable(form, true);
});
