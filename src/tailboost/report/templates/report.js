"use strict";
(() => {
  const data = JSON.parse(document.getElementById("charts-data").textContent);
  const hidden = new Set();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const inks = {
    light: { text: "#1c1f23", grid: "#e3e6ea", line: "#9aa1a9", back: "#ffffff" },
    dark: { text: "#e7e9ec", grid: "#2c3138", line: "#6b737d", back: "#14171b" },
  };
  let printing = false;

  const scheme = () => (dark.matches && !printing ? "dark" : "light");
  const colour = (m) => data.methods[m][scheme()];
  const faded = (hex, opacity) =>
    `rgba(${[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",")},${opacity})`;
  const narrow = (element) => element.clientWidth < 560;
  const shown = () => data.methods.map((_, m) => m).filter((m) => !hidden.has(m));
  const digits = (x) => x.toFixed(3);
  const interval = (f) => (f.low === null ? "" : ` (${digits(f.low)} to ${digits(f.high)})`);

  function layout(element, height, xaxis, yaxis, margin, shapes = []) {
    const ink = inks[scheme()];
    const axis = { gridcolor: ink.grid, linecolor: ink.line, zerolinecolor: ink.line, tickcolor: ink.line, fixedrange: true };
    return {
      height, margin, shapes,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", size: narrow(element) ? 12 : 13, color: ink.text },
      showlegend: false, hovermode: "closest", dragmode: false,
      hoverlabel: { bgcolor: ink.back, bordercolor: ink.line, font: { color: ink.text } },
      xaxis: { ...axis, ...xaxis }, yaxis: { ...axis, ...yaxis },
    };
  }

  function plot(element, traces, drawn) {
    Plotly.react(element, traces, drawn, { displayModeBar: false, responsive: true });
  }

  function cvar(element) {
    const { alphas, marks, series } = data.cvar;
    const ink = inks[scheme()];
    const bands = [], lines = [];
    for (const m of shown()) {
      const figures = series[m];
      if (figures[0].low !== null && figures.some((f) => f.high > f.low)) {
        bands.push({
          x: [...alphas, ...alphas.slice().reverse()],
          y: [...figures.map((f) => f.high), ...figures.map((f) => f.low).reverse()],
          fill: "toself", fillcolor: faded(colour(m), 0.14), line: { width: 0 }, mode: "lines", hoverinfo: "skip",
        });
      }
      lines.push({
        x: alphas, y: figures.map((f) => f.mean), mode: "lines+markers",
        line: { color: colour(m), width: 2.2, dash: data.methods[m].dash },
        marker: { color: colour(m), symbol: data.methods[m].symbol, size: narrow(element) ? 5 : 7 },
        text: figures.map(interval),
        hovertemplate: `${data.methods[m].title}<br>α = %{x}: %{y:.3f}%{text}<extra></extra>`,
      });
    }
    const ticks = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1].filter((a) => a >= alphas[0]);
    const shapes = marks.map((a) => ({
      type: "line", x0: a, x1: a, y0: 0, y1: 1, yref: "paper", layer: "below", line: { color: ink.line, width: 1, dash: "dot" },
    }));
    const reach = Math.log10(alphas[0]) - 0.04;
    plot(element, [...bands, ...lines], layout(
      element, narrow(element) ? 380 : 480,
      { type: "log", range: [reach, 0.04], tickvals: ticks, ticktext: ticks.map(String), title: { text: "tail mass α (logarithmic)", standoff: 8 } },
      { range: [0, 1.03], title: { text: "CVaR of the zero-one loss", standoff: 8 } },
      { l: 56, r: 12, t: 12, b: 52 }, shapes));
  }

  // The coin flip errs alike in every row: a line, not dots.
  const learned = (methods) => methods.filter((m) => !data.methods[m].coin);

  function scale(charts) {
    const figures = charts.flatMap((c) => learned(shown()).flatMap((m) => c.series[m])).filter(Boolean);
    const low = Math.min(1, ...figures.map((f) => f.low ?? f.mean));
    const high = Math.max(0, ...figures.map((f) => f.high ?? f.mean));
    if (low > high) return [0, 1];
    const pad = 0.06 * (high - low) + 0.005;
    return [Math.max(-0.01, low - pad), Math.min(1.01, high + pad)];
  }

  function dots(element, chart, range) {
    const methods = learned(shown());
    const ink = inks[scheme()];
    const rows = chart.categories.length;
    const place = (category, k) => category + ((k + 0.5) / Math.max(methods.length, 1) - 0.5) * 0.84;
    const traces = methods.map((m, k) => {
      const known = chart.series[m].map((f, i) => [f, i]).filter(([f]) => f);
      return {
        x: known.map(([f]) => f.mean), y: known.map(([, i]) => place(i, k)), mode: "markers",
        marker: { color: colour(m), symbol: data.methods[m].symbol, size: 9 },
        error_x: {
          type: "data", symmetric: true, thickness: 1.4, width: 3, color: colour(m),
          array: known.map(([f]) => (f.high === null ? 0 : f.high - f.mean)),
        },
        text: known.map(([f, i]) => `${chart.categories[i]}: ${digits(f.mean)}${interval(f)}`),
        hovertemplate: `${data.methods[m].title}<br>%{text}<extra></extra>`,
      };
    });
    const limit = narrow(element) ? 15 : 24;
    const short = (name) => (name.length > limit ? `${name.slice(0, limit - 1)}…` : name);
    const labels = chart.categories.map((name, i) => `${short(name)}<br>n = ${chart.counts[i].toLocaleString("en")}`);
    const shapes = chart.categories.slice(1).map((_, i) => ({
      type: "line", xref: "paper", x0: 0, x1: 1, y0: i + 0.5, y1: i + 0.5, line: { color: ink.line, width: 1 },
    }));
    const coin = shown().find((m) => data.methods[m].coin);
    if (coin !== undefined && data.coin >= range[0] && data.coin <= range[1]) {
      shapes.push({
        type: "line", yref: "paper", x0: data.coin, x1: data.coin, y0: 0, y1: 1, layer: "below",
        line: { color: colour(coin), width: 2, dash: "dot" },
      });
    }
    plot(element, traces, layout(
      element, 76 + rows * Math.max(46, 15 * methods.length),
      { range, title: { text: "error", standoff: 6 }, tickformat: ".2~f", nticks: narrow(element) ? 7 : 12, zeroline: false },
      { range: [rows - 0.5, -0.5], tickvals: labels.map((_, i) => i), ticktext: labels, automargin: true, showgrid: false, zeroline: false, ticks: "" },
      { l: 70, r: 12, t: 6, b: 48 }, shapes));
  }

  function seconds(element) {
    const methods = shown();
    const value = (m) => data.seconds[m].mean;
    const most = Math.max(...methods.map(value), 1e-9);
    const said = (s) => `${s >= 10 ? s.toFixed(0) : s.toPrecision(2)} s`;
    plot(element, [{
      type: "bar", orientation: "h", x: methods.map(value), y: methods.map((_, k) => k),
      marker: { color: methods.map(colour) }, text: methods.map((m) => said(value(m))), textposition: "outside", cliponaxis: false,
      hovertemplate: methods.map((m) => `${data.methods[m].title}: ${said(value(m))}${interval(data.seconds[m])}<extra></extra>`),
    }], layout(
      element, 60 + 30 * methods.length,
      { range: [0, most * 1.18], title: { text: "seconds", standoff: 6 } },
      { range: [methods.length - 0.5, -0.5], tickvals: methods.map((_, k) => k), ticktext: methods.map((m) => data.methods[m].title), automargin: true, showgrid: false, zeroline: false, ticks: "" },
      { l: 70, r: 12, t: 6, b: 44 }));
  }

  function draw() {
    cvar(document.getElementById("cvar"));
    const [classes, ...groups] = data.dots;
    dots(document.getElementById(classes.id), classes, scale([classes]));
    for (const chart of groups) dots(document.getElementById(chart.id), chart, scale(groups));
    seconds(document.getElementById("seconds"));
  }

  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const m = Number(button.dataset.method);
      if (!hidden.delete(m)) hidden.add(m);
      button.setAttribute("aria-pressed", String(!hidden.has(m)));
      draw();
    });
  }
  dark.addEventListener("change", draw);
  addEventListener("beforeprint", () => { printing = true; draw(); });
  addEventListener("afterprint", () => { printing = false; draw(); });
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
  draw();
})();
