// Shows the buttons that print the page. Without it the browser's own command does.
for (const button of document.querySelectorAll("[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => window.print());
}
