"use strict";
// What is embedded, as files. Everything else on the page stands without a script.
for (const link of document.querySelectorAll("a[data-from]")) {
  const text = document.getElementById(link.dataset.from).textContent;
  const content = link.dataset.type === "text/csv" ? JSON.parse(text) : text;
  link.href = URL.createObjectURL(new Blob([content], { type: link.dataset.type }));
}
document.documentElement.dataset.ready = "yes";
