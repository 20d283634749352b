// Puts a button beside what is to be copied. Without it the text can be marked and copied by hand.
for (const source of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) break;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button secondary small";
  button.textContent = "Copy";
  button.setAttribute("aria-describedby", source.getAttribute("aria-labelledby"));
  const said = document.createElement("span");
  said.setAttribute("role", "status");
  said.className = "muted";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(source.textContent);
      said.textContent = " Copied";
    } catch {
      said.textContent = " Mark the text and copy it by hand";
    }
  });
  const row = document.createElement("p");
  row.append(button, said);
  source.after(row);
}
