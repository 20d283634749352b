// Adds a "Copy" button to each code block and each element with data-copy. Without this script, text is selected and copied by hand.
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
  name.textContent = ` ${document.getElementById(source.getAttribute("aria-labelledby"))?.textContent ?? heading}`;
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
  const block = document.createElement("div");
  block.className = "copyable";
  source.replaceWith(block);
  block.append(source, button);
  if (!said.isConnected) document.body.append(said);
}
