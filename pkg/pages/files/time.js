// Adds the reader's local time to every instant. Without it pages show UTC alone.
for (const time of document.querySelectorAll("time[datetime*='T']")) {
  const at = new Date(time.dateTime);
  if (isNaN(at) || at.getTimezoneOffset() === 0) continue;
  const local = document.createElement("span");
  local.className = "local";
  const day = time.hasAttribute("data-clock") ? {} : { dateStyle: "medium" }; // a clock stands below its day
  local.textContent = " (" + at.toLocaleString(document.documentElement.lang, { ...day, timeStyle: "short" }) + " your time)";
  time.append(local);
}
