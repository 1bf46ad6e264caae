"use strict";
// Marks methods in the charts, shows tooltips, and moves along α.
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
    const alphas = slider.dataset.alphas.trim().split(" ");
    const list = document.getElementById("alpha-list");
    const methods = [...list.children].map((item) => [item, item.dataset.name, item.dataset.values.trim().split(" ")]);
    const move = () => {
      const k = Number(slider.value);
      slider.setAttribute("aria-valuetext", `α = ${alphas[k]}`);
      document.getElementById("alpha-value").textContent = alphas[k];
      for (const line of all(".cursor")) {
        line.setAttribute("transform", `translate(${line.dataset.tip.split(" ")[k]},0)`);
        line.style.visibility = "visible";
      }
      methods.sort((a, b) => a[2][k] - b[2][k]);
      for (const [item, name, values] of methods) item.textContent = `${name} ${values[k]}`;
      list.replaceChildren(...methods.flatMap(([item]) => [item, " "]));
    };
    slider.addEventListener("input", move);
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
