"use strict";
// Moves over the points of a trade-off. All names are written as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const get = (id) => document.getElementById(id);
  const node = (name, kind, ...inside) => {
    const made = document.createElement(name);
    if (kind) made.className = kind;
    made.append(...inside);
    return made;
  };
  const shown = (x) => (x === null ? "–" : x.toFixed(4));

  // -- the chart ---------------------------------------------------------------------------------------
  const SVG = "http://www.w3.org/2000/svg";
  const draw = (name, attributes, parent, words) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (words !== undefined) made.textContent = words;
    parent.append(made);
    return made;
  };
  // About five round numbers between two numbers.
  const ticks = (low, high) => {
    const power = 10 ** Math.floor(Math.log10((high - low) / 5));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= (high - low) / 5);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k <= high / step + 1e-9; k++) found.push(Number((k * step).toPrecision(10)));
    return found;
  };
  const own = data.points.map((p) => [p.limited, p.value]);
  const all = [...own, ...(data.measured ?? [])];
  const range = (i) => {
    const values = all.map((pair) => pair[i]).filter((x) => x !== null);
    const low = Math.min(...values), high = Math.max(...values), room = (high - low) * 0.06 || 0.05;
    return [low - room, high + room];
  };
  const [xs, ys] = [range(0), range(1)];
  let mark = null, line = null, place = null;
  const chart = (width) => {
    const height = Math.round(Math.min(width * 0.62, 340)), left = 52, right = 12, top = 26, bottom = 42;
    const x = (v) => left + ((v - xs[0]) / (xs[1] - xs[0])) * (width - left - right);
    const y = (v) => height - bottom - ((v - ys[0]) / (ys[1] - ys[0])) * (height - top - bottom);
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${data.objective} by ${data.limited}, a dot for each point`);
    for (const v of ticks(...xs)) {
      draw("line", { class: "grid", x1: x(v), x2: x(v), y1: top, y2: height - bottom }, svg);
      draw("text", { x: x(v), y: height - bottom + 16, "text-anchor": "middle" }, svg, String(v));
    }
    for (const v of ticks(...ys)) {
      draw("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }, svg);
      draw("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, svg, String(v));
    }
    const most = Math.floor((width - left) / 6.6); // characters of a line of text
    const cut = (words) => (words.length > most ? `${words.slice(0, most - 1)}…` : words);
    draw("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, svg, cut(data.limited));
    draw("text", { x: 2, y: 14 }, svg, cut(data.objective));
    if (data.mixtures_between) draw("polyline", { class: "join", points: own.map((p) => `${x(p[0])},${y(p[1])}`).join(" ") }, svg);
    for (const p of data.measured ?? []) {
      if (p.includes(null)) continue;
      draw("rect", { class: "other", x: x(p[0]) - 3, y: y(p[1]) - 3, width: 6, height: 6 }, svg);
    }
    for (const p of own) draw("circle", { class: "point", cx: x(p[0]), cy: y(p[1]), r: 3.5 }, svg);
    draw("circle", { class: "start", cx: x(own[data.start][0]), cy: y(own[data.start][1]), r: 9 }, svg);
    line = draw("line", { class: "limit", y1: top, y2: height - bottom }, svg);
    mark = draw("circle", { class: "now", r: 7 }, svg);
    place = (k) => {
      for (const end of ["x1", "x2"]) line.setAttribute(end, x(own[k][0]));
      mark.setAttribute("cx", x(own[k][0]));
      mark.setAttribute("cy", y(own[k][1]));
    };
    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect(), scale = width / box.width;
      const at = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
      const far = own.map((p) => (x(p[0]) - at[0]) ** 2 + (y(p[1]) - at[1]) ** 2);
      go(far.indexOf(Math.min(...far)));
    });
    get("chart").replaceChildren(svg);
  };
  const key = [["point", "points on the selection data"], ["now", "this point; dashed: its limit"], ["start", "nearest to the selected rule"]];
  if (data.measured) key.push(["other", "the points on other rows"]);
  for (const [kind, words] of key) get("key").append(node("span", "", node("i", kind), words));

  // -- the rates ---------------------------------------------------------------------------------------
  const families = new Map();
  data.lines.forEach((about, i) => {
    if (!families.has(about.rate)) families.set(about.rate, []);
    families.get(about.rate).push(i);
  });
  const rows = [];
  for (const [rate, numbers] of families) {
    // One scale for all points, so that bars move only if rates do.
    const ends = data.points.flatMap((p) => numbers.flatMap((i) => [p.rates[i][0], p.rates[i][2], p.rates[i][4]]));
    const most = Math.max(...ends.filter((v) => v !== null), 1e-9);
    const section = node("section", "", node("h3", "", rate));
    for (const i of numbers) {
      const bar = node("div", "bar"), number = node("div", "number");
      section.append(node("div", "row", node("div", "", data.lines[i].subgroup), bar, number));
      rows.push([i, bar, number, most]);
    }
    get("rates").append(section);
  }
  const span = (kind, from, to, most) => {
    const made = node("span", kind);
    made.style.left = `${(100 * Math.max(from, 0)) / most}%`;
    if (to !== null) made.style.width = `${(100 * (to - Math.max(from, 0))) / most}%`;
    return made;
  };

  // -- moving ------------------------------------------------------------------------------------------
  const slider = get("slider"), last = data.points.length - 1;
  const go = (k) => {
    const point = data.points[k];
    slider.value = k;
    get("before").disabled = k === 0;
    get("after").disabled = k === last;
    const text = `Point ${k + 1} of ${last + 1}`;
    slider.setAttribute("aria-valuetext", `${text}: ${data.limited} ${shown(point.limited)}, ${data.objective} ${shown(point.value)}`);
    get("place").textContent = k === data.start ? `${text}: nearest to the selected rule` : text;
    get("verdict").replaceChildren(
      `${data.limited} `, node("b", "", shown(point.limited)), `, ${data.objective} `, node("b", "", shown(point.value)),
    );
    const price = point.price > 0 ? `${shown(point.price)} more than at the point with the least overall error` : "the least of all points";
    const other = data.measured?.[k];
    const measured = other ? ` On the other rows: ${shown(other[0])} and ${shown(other[1])}.` : "";
    get("price").textContent = `The overall error is ${shown(point.error)}, ${price}.${measured}`;
    for (const [i, bar, number, most] of rows) {
      const [value, low, high, n, bound, sense] = point.rates[i];
      const parts = [];
      if (low !== null) parts.push(span("interval", low, high, most));
      if (value !== null) parts.push(span("estimate", value, null, most));
      if (bound !== null) parts.push(span("bound", bound, null, most));
      bar.replaceChildren(...parts);
      const about = [low === null ? "" : `${shown(low)} to ${shown(high)}`, bound === null ? "" : `${sense} ${bound}`];
      number.replaceChildren(shown(value), node("small", "", about.filter(Boolean).join(", ")));
      bar.title = n === null ? "" : `${Math.round(n).toLocaleString("en")} rows`;
    }
    get("call").textContent = point.call;
    place(k);
  };
  slider.addEventListener("input", () => go(Number(slider.value)));
  get("before").addEventListener("click", () => go(Math.max(0, Number(slider.value) - 1)));
  get("after").addEventListener("click", () => go(Math.min(last, Number(slider.value) + 1)));

  get("app").hidden = false;
  const resized = () => {
    const width = Math.max(280, Math.round(get("chart").clientWidth));
    chart(width);
    place(Number(slider.value));
  };
  slider.value = data.start;
  resized();
  go(data.start);
  addEventListener("resize", resized);
})();
