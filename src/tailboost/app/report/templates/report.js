"use strict";
// What the page can do beyond its text and pictures: mark methods, say what a mark is, move along α.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  document.documentElement.classList.add("js");
  for (const element of all("[data-js]")) element.hidden = false;

  const marked = new Set();
  for (const chip of all(".chip")) {
    chip.setAttribute("aria-pressed", "false");
    chip.addEventListener("click", () => {
      const m = chip.dataset.method;
      if (!marked.delete(m)) marked.add(m);
      for (const other of all(`.chip[data-method="${m}"]`)) other.setAttribute("aria-pressed", String(marked.has(m)));
      for (const part of all(".chart .m")) {
        part.classList.toggle("dim", marked.size > 0 && ![...marked].some((k) => part.classList.contains(k)));
      }
    });
  }

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  for (const title of all(".chart title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }
  document.addEventListener("pointerover", (event) => {
    const part = event.target.closest("[data-tip]");
    tip.hidden = !part;
    if (part) tip.textContent = part.dataset.tip;
  });
  document.addEventListener("pointermove", (event) => {
    if (tip.hidden) return;
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
  });

  const slider = document.getElementById("alpha");
  if (slider) {
    const heads = all("#cvar-table thead th").slice(1);
    const rows = all("#cvar-table tbody tr");
    const move = () => {
      const k = Number(slider.value);
      slider.setAttribute("aria-valuetext", `α = ${heads[k].textContent}`);
      for (const line of all(".cursor")) {
        line.setAttribute("transform", `translate(${line.dataset.x.split(" ")[k]},0)`);
        line.style.visibility = "visible";
      }
      const lines = rows
        .filter((row) => !row.classList.contains("rest") || document.getElementById("all")?.checked)
        .map((row) => [row.dataset.short, row.cells[k + 1].textContent.trim()])
        .sort((a, b) => parseFloat(a[1]) - parseFloat(b[1]));
      document.getElementById("alpha-value").textContent = heads[k].textContent;
      document.getElementById("alpha-list").textContent = lines.map(([name, value]) => `${name} ${value}`).join(" · ");
    };
    slider.addEventListener("input", move);
    document.getElementById("all")?.addEventListener("change", move);
    move();
  }

  const reveal = () => {
    const target = document.getElementById(location.hash.slice(1));
    target?.closest("details")?.setAttribute("open", "");
  };
  addEventListener("hashchange", reveal);
  reveal();
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not([open])");
    for (const part of opened) part.open = true;
  });
  addEventListener("afterprint", () => { for (const part of opened) part.open = false; });
})();
