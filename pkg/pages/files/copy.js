// Adds a "Copy" button above each code block and each element with data-copy. Without this script, text is selected and copied by hand.
const said = document.createElement("p");
said.className = "visually-hidden";
said.setAttribute("role", "status");

let heading = "";
for (const source of document.querySelectorAll("h1, h2, h3, h4, summary, pre, [data-copy]")) {
  if (!navigator.clipboard) break;
  if (!source.matches("pre, [data-copy]")) {
    heading = source.textContent;
    continue;
  }
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  const shown = document.createTextNode("Copy");
  const name = document.createElement("span");
  name.className = "visually-hidden";
  const caption = source.parentElement.querySelector(":scope > figcaption");
  const label = document.getElementById(source.getAttribute("aria-labelledby"))?.textContent || source.dataset.copy;
  name.textContent = ` ${label || [heading, caption?.textContent].filter(Boolean).join(", ")}`;
  button.append(shown, name);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(source.textContent.trimEnd());
      said.textContent = shown.data = "Copied";
    } catch {
      said.textContent = "Select the text and copy it by hand";
    }
    setTimeout(() => {
      shown.data = "Copy";
      said.textContent = "";
    }, 3000);
  });
  if (caption) {
    caption.append(button);
  } else if (source.closest("td")) {
    source.after(button);
  } else {
    const bar = document.createElement("div");
    bar.className = "bar";
    bar.append(button);
    source.before(bar);
  }
  if (!said.isConnected) document.body.append(said);
}
