// A button beside each text that is there to be copied. Without this script the pages lack the buttons and nothing else.
"use strict";
for (const block of document.querySelectorAll(".copy")) {
  const text = block.querySelector("pre");
  if (!text || !navigator.clipboard) continue;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  button.textContent = "Copy";
  button.setAttribute("aria-label", `Copy: ${text.getAttribute("aria-label") || "this text"}`);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it and copy by hand";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 3000);
  });
  block.append(button);
}
