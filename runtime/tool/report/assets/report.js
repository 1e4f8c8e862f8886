"use strict";
// Draws a report from the data in the page. Times are microseconds, sizes bytes.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const steps = data.steps, svgNs = "http://www.w3.org/2000/svg";
  const view = document.getElementById("view"), details = document.getElementById("details");
  const hasTimes = steps.some(step => typeof step.us === "number");
  let chosen = -1, redrawChoice = () => {};

  // --- small tools ---
  const html = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== false && value !== null) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.flat().filter(child => child !== null && child !== undefined));
    return made;
  };
  const svg = (tag, attributes = {}, ...children) => {
    const made = document.createElementNS(svgNs, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  const us = value => typeof value !== "number" ? "-" : value >= 1e4 ? (value / 1e3).toFixed(1) + " ms" : value.toFixed(1) + " µs";
  const bytes = value => {
    if (typeof value !== "number") return "-";
    const units = ["B", "kB", "MB", "GB"];
    let unit = 0;
    while (value >= 1e4 && unit < 3) { value /= 1e3; ++unit; }
    return (unit ? value.toFixed(1) : Math.round(value)) + " " + units[unit];
  };
  const moved = step => (step.read_bytes || 0) + (step.written_bytes || 0);
  const short = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;
  const opName = node => node.split(" from ")[0].split(" = ")[0];
  const originOf = step => {
    for (const node of step.nodes || []) {
      const found = node.match(/ from (.*?)( = .*)?$/);
      if (found) return found[1];
    }
    return "";
  };
  const label = step => {
    const ops = (step.nodes || []).map(opName);
    return ops.length ? ops.slice(0, 3).join(", ") + (ops.length > 3 ? ` and ${ops.length - 3} more` : "") : step.implementation;
  };
  const timeOf = step => typeof step.us === "number" ? step.us : step.predicted_us;
  const score = step => typeof step.us === "number" && typeof step.bound_us === "number" && step.us > 0 ? step.bound_us / step.us : null;

  // --- details of a step ---
  const choose = number => {
    chosen = number;
    details.hidden = number < 0;
    if (number >= 0) showDetails(number);
    redrawChoice();
  };
  const showDetails = number => {
    const step = steps[number];
    const row = (name, value) => html("tr", {}, html("td", {}, name), html("td", {}, value));
    const link = number => html("button", { onclick: () => choose(number) }, `${number}: ${short(label(steps[number]), 30)}`);
    const from = data.edges.filter(e => e.to === number && e.from >= 0).map(e => e.from);
    const to = data.edges.filter(e => e.from === number).map(e => e.to);
    const rows = [row("kind", step.kind + (step.once ? ", once per plan" : "")), row("implementation", step.implementation)];
    if (step.library) rows.push(row("library", step.library));
    if (step.shapes) rows.push(row("operands", step.shapes));
    rows.push(row("read and written", `${bytes(step.read_bytes)} and ${bytes(step.written_bytes)}`));
    rows.push(row("operations", step.operations ? step.operations.toLocaleString("en") : "-"));
    rows.push(row("measured", us(step.us)));
    if (step.kind === "generated") rows.push(row("predicted, bound", `${us(step.predicted_us)}, ${us(step.bound_us)}`));
    if (score(step) !== null) rows.push(row("score", (100 * score(step)).toFixed(0) + " % of the speed of a copy"));
    if (step.registers !== undefined) rows.push(row("registers, spilled", `${step.registers}, ${step.spills || 0}`));
    if (step.why) rows.push(row("chosen", `${step.why} (of ${step.candidates})`));
    details.replaceChildren(
      html("div", { class: "bar" }, html("button", { onclick: () => choose(-1), "aria-label": "Close details" }, "Close"),
        html("button", { onclick: () => choose(Math.max(0, number - 1)) }, "Previous"),
        html("button", { onclick: () => choose(Math.min(steps.length - 1, number + 1)) }, "Next")),
      html("h2", {}, `Step ${number}: ${label(step)}`),
      html("table", {}, html("tbody", {}, rows)),
      html("h2", {}, `Fused: ${(step.nodes || []).length} ${(step.nodes || []).length === 1 ? "op" : "ops"}`), html("pre", {}, (step.nodes || []).join("\n")),
      html("h2", {}, "Writes"), html("pre", {}, (step.values || []).map(value => value.startsWith(":") ? "(no name)" + value : value).join("\n")),
      html("h2", {}, "Why its boundaries were not fused"),
      (step.not_fused || []).length ? html("table", {}, html("tbody", {}, step.not_fused.map(boundary =>
        html("tr", {}, html("td", {}, short(boundary.from, 60)), html("td", {}, boundary.reason))))) : html("p", { class: "faint" }, "No boundary lies before it."),
      html("h2", {}, "Before"), html("div", { class: "bar" }, from.map(link)),
      html("h2", {}, "After"), html("div", { class: "bar" }, to.map(link)),
      ...(data.kernels[step.implementation] ? [html("h2", {}, "Kernel"), html("pre", { tabindex: 0 }, data.kernels[step.implementation])] : []));
    details.scrollTop = 0;
  };

  // --- the graph ---
  // Layers by the longest path; inside of a layer by the mean place of what comes before.
  const layOut = () => {
    const nodes = steps.map((step, i) => ({ id: i, step, rank: 0, x: 0 }));
    const ends = new Map();
    data.inputs.forEach((input, i) => ends.set(-1 - i, { id: -1 - i, end: input.name, rank: 0, x: 0 }));
    const at = id => id >= 0 ? nodes[id] : ends.get(id);
    const edges = data.edges.filter(e => at(e.from)).map(e => ({ ...e, a: at(e.from), b: nodes[e.to] }));
    const outs = data.outputs.map((output, i) => ({ id: 1e6 + i, end: output.name, rank: 0, x: 0, from: output.steps.map(at) }));
    edges.sort((p, q) => p.to - q.to);
    for (const edge of edges) edge.b.rank = Math.max(edge.b.rank, edge.a.rank + 1);
    for (const out of outs) {
      for (const from of out.from) { out.rank = Math.max(out.rank, from.rank + 1); edges.push({ a: from, b: out, from: from.id, to: out.id }); }
    }
    const used = [...ends.values()].filter(end => edges.some(e => e.a === end));
    const all = [...used, ...nodes, ...outs];
    for (const end of used) end.rank = Math.max(0, Math.min(...edges.filter(e => e.a === end).map(e => e.b.rank)) - 1);
    const layers = [];
    for (const node of all) (layers[node.rank] = layers[node.rank] || []).push(node);
    const before = new Map(all.map(node => [node, []]));
    for (const edge of edges) before.get(edge.b).push(edge.a);
    const width = 190, height = 46, gapX = 26, gapY = 34;
    for (const layer of layers.filter(Boolean)) {
      for (const node of layer) {
        const parents = before.get(node);
        node.want = parents.length ? parents.reduce((sum, p) => sum + p.x, 0) / parents.length : 0;
      }
      layer.sort((p, q) => p.want - q.want);
      let right = -Infinity;
      for (const node of layer) { node.x = Math.max(node.want, right); right = node.x + width + gapX; }
      const shift = layer.reduce((sum, node) => sum + node.want - node.x, 0) / layer.length;
      for (const node of layer) { node.x += shift; node.y = node.rank * (height + gapY); }
    }
    return { all, edges, width, height };
  };
  let layout = null;

  const drawGraph = () => {
    layout = layout || layOut();
    const { all, edges, width, height } = layout;
    const slowest = Math.max(1e-9, ...steps.map(step => timeOf(step) || 0));
    const content = svg("g");
    const lines = edges.map(edge => {
      const x1 = edge.a.x + width / 2, y1 = edge.a.y + height, x2 = edge.b.x + width / 2, y2 = edge.b.y, bend = Math.max(16, (y2 - y1) / 2);
      // One that passes other steps goes round them.
      const span = edge.b.rank - edge.a.rank, aside = width * 0.25 + 5 * Math.min(span, 20), half = width / 2, down = height / 2;
      const line = svg("path", { class: "edge", d: span === 1 ? `M${x1},${y1} C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}`
        : `M${x1 + half},${y1 - down} C${x1 + half + aside},${y1 - down} ${x2 + half + aside},${y2 + down} ${x2 + half},${y2 + down}` },
        svg("title", {}, edge.dtype ? `${edge.dtype}${edge.shape}, ${bytes(edge.bytes)}` : ""));
      content.append(line);
      return [edge, line];
    });
    const boxes = all.map(node => {
      const box = svg("g", { class: "node " + (node.step ? node.step.kind + (node.step.once ? " once" : "") : "end"), transform: `translate(${node.x},${node.y})` });
      box.append(svg("rect", { width, height, rx: 5 }));
      if (node.step) {
        const part = (timeOf(node.step) || 0) / slowest;
        box.append(svg("rect", { x: 0, y: height - 4, width: Math.max(1, width * part), height: 4, style: "fill: var(--heat); stroke: none" }));
        box.append(svg("text", { x: 8, y: 18 }, short(`${node.id} ${label(node.step)}`, 27)));
        box.append(svg("text", { x: 8, y: 34, class: "small" }, short(`${us(timeOf(node.step))}  ${bytes(moved(node.step))}  ${originOf(node.step)}`, 30)));
        box.append(svg("title", {}, `${label(node.step)}\n${originOf(node.step)}\n${node.step.implementation}`));
        box.addEventListener("click", () => choose(node.id));
        box.style.cursor = "pointer";
      } else {
        box.append(svg("text", { x: 8, y: 27 }, short(node.end, 29)), svg("title", {}, node.end));
      }
      content.append(box);
      return [node, box];
    });
    const drawing = svg("svg", { id: "graph", tabindex: 0, role: "application", "aria-label":
      "Graph of steps. Arrow keys go from step to step, plus and minus zoom, 0 shows all, slash searches." }, content);
    let scale = 1, tx = 0, ty = 0;
    const place = () => content.setAttribute("transform", `translate(${tx},${ty}) scale(${scale})`);
    const left = Math.min(...all.map(n => n.x)), right = Math.max(...all.map(n => n.x + width)), low = Math.max(...all.map(n => n.y + height));
    const zoom = (factor, x, y) => {
      const next = Math.min(4, Math.max(0.02, scale * factor));
      tx = x - (x - tx) * next / scale; ty = y - (y - ty) * next / scale; scale = next;
      place();
    };
    const fit = whole => {
      const box = drawing.getBoundingClientRect();
      scale = Math.min(1.2, box.width / (right - left + 40), whole ? box.height / (low + 40) : Infinity);
      if (!whole) scale = Math.max(scale, 0.35);
      tx = (box.width - (right + left) * scale) / 2; ty = 20 * scale;
      place();
    };
    const centre = node => {
      const box = drawing.getBoundingClientRect();
      if (scale < 0.5) scale = 0.8;
      tx = box.width / 2 - (node.x + width / 2) * scale; ty = box.height / 2 - (node.y + height / 2) * scale;
      place();
    };
    drawing.addEventListener("wheel", event => {
      event.preventDefault();
      const box = drawing.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY / 500), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    let drag = null;
    drawing.addEventListener("pointerdown", event => { drag = { x: event.clientX - tx, y: event.clientY - ty }; });
    drawing.addEventListener("pointermove", event => {
      if (!drag || !event.buttons) return;
      tx = event.clientX - drag.x; ty = event.clientY - drag.y;
      place();
    });
    const middle = () => { const box = drawing.getBoundingClientRect(); return [box.width / 2, box.height / 2]; };
    const search = html("input", { type: "search", placeholder: "Search ops, names, kernels", "aria-label": "Search the steps" });
    const found = html("span", { class: "faint", role: "status" });
    let hits = [];
    const look = () => {
      const word = search.value.trim().toLowerCase();
      hits = word ? steps.filter(s => JSON.stringify([s.nodes, s.values, s.implementation, s.library]).toLowerCase().includes(word)).map(s => s.step) : [];
      for (const [node, box] of boxes) box.classList.toggle("missed", word !== "" && !hits.includes(node.id));
      found.textContent = word ? `${hits.length} of ${steps.length} steps` : "";
    };
    search.addEventListener("input", look);
    search.addEventListener("keydown", event => {
      if (event.key === "Enter" && hits.length) choose(hits[(hits.indexOf(chosen) + 1) % hits.length]);
      if (event.key === "Escape") { search.value = ""; look(); drawing.focus(); }
    });
    drawing.addEventListener("keydown", event => {
      const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
      if (step) { event.preventDefault(); choose(Math.min(steps.length - 1, Math.max(0, chosen + step))); }
      if (event.key === "+" || event.key === "=") zoom(1.25, ...middle());
      if (event.key === "-") zoom(0.8, ...middle());
      if (event.key === "0") fit(true);
      if (event.key === "/") { event.preventDefault(); search.focus(); }
      if (event.key === "Escape") choose(-1);
    });
    redrawChoice = () => {
      for (const [node, box] of boxes) box.classList.toggle("chosen", node.id === chosen);
      for (const [edge, line] of lines) line.classList.toggle("chosen", chosen >= 0 && (edge.from === chosen || edge.to === chosen));
      const node = all.find(n => n.id === chosen);
      if (node) centre(node);
    };
    view.replaceChildren(html("div", { class: "bar" }, search, found,
      html("button", { onclick: () => zoom(1.25, ...middle()) }, "Zoom in"), html("button", { onclick: () => zoom(0.8, ...middle()) }, "Zoom out"),
      html("button", { onclick: () => fit(true) }, "Show all"),
      html("span", {}, html("span", { class: "key", style: "background: var(--generated)" }), "generated"),
      html("span", {}, html("span", { class: "key", style: "background: var(--library)" }), "library"),
      html("span", {}, html("span", { class: "key", style: "background: var(--heat)" }), "time")), drawing);
    fit(false);
    if (chosen >= 0) redrawChoice();
  };

  // --- the list of steps ---
  let order = { key: "step", up: true };
  const drawSteps = () => {
    const columns = [["step", s => s.step], ["ops", label], ["kind", s => s.kind], ["implementation", s => s.library || s.implementation],
      ["bytes", moved], ["operations", s => s.operations || 0], ["measured", s => s.us], ["predicted", s => s.predicted_us], ["bound", s => s.bound_us], ["score", score]];
    const numbers = new Set(["step", "bytes", "operations", "measured", "predicted", "bound", "score"]);
    const value = columns.find(c => c[0] === order.key)[1];
    const sorted = [...steps].sort((p, q) => {
      const a = value(p), b = value(q);
      const less = a === b ? 0 : a === null || a === undefined ? 1 : b === null || b === undefined ? -1 : a < b ? -1 : 1;
      return order.up ? less : -less;
    });
    const text = (name, v) => name === "bytes" ? bytes(v) : ["measured", "predicted", "bound"].includes(name) ? us(v)
      : name === "score" ? (v === null ? "-" : (100 * v).toFixed(0) + " %") : name === "operations" ? v.toLocaleString("en") : String(v);
    const rows = sorted.map(step => {
      const row = html("tr", { tabindex: 0, class: step.step === chosen ? "chosen" : null, onclick: () => choose(step.step) },
        columns.map(([name, get]) => html("td", { class: numbers.has(name) ? "number" : null }, short(text(name, get(step)), 60))));
      row.addEventListener("keydown", event => { if (event.key === "Enter") choose(step.step); });
      row.step = step.step;
      return row;
    });
    redrawChoice = () => { for (const row of rows) row.classList.toggle("chosen", row.step === chosen); };
    view.replaceChildren(html("table", {}, html("thead", {}, html("tr", {}, columns.map(([name]) =>
      html("th", { class: numbers.has(name) ? "number" : null, "aria-sort": order.key === name ? (order.up ? "ascending" : "descending") : "none" },
        html("button", { style: "font: inherit; font-weight: 600; background: none; border: 0; color: inherit; cursor: pointer; padding: 0",
          onclick: () => { order = { key: name, up: order.key === name ? !order.up : !["measured", "bytes", "operations"].includes(name) }; drawSteps(); } }, name))))),
      html("tbody", {}, rows)));
  };

  // --- the roofline ---
  const drawRoofline = () => {
    const points = steps.filter(s => s.operations > 0 && moved(s) > 0 && timeOf(s) > 0).map(s => ({ s, x: s.operations / moved(s), y: s.operations / timeOf(s) / 1e3 }));
    if (!points.length) { view.replaceChildren(html("p", {}, "No step has a time, bytes and operations.")); return; }
    const width = 900, height = 460, pad = 60, memory = data.machine.memory_copy, cache = data.machine.cache_copy;
    const range = list => [Math.floor(Math.min(...list.map(Math.log10))), Math.ceil(Math.max(...list.map(Math.log10)))];
    const [x0, x1] = range(points.map(p => p.x).concat([0.1, 10])), [y0, y1] = range(points.map(p => p.y));
    const px = v => pad + (Math.log10(v) - x0) / (x1 - x0) * (width - pad - 20), py = v => height - pad - (Math.log10(v) - y0) / (y1 - y0) * (height - pad - 20);
    const drawing = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Roofline" });
    const clip = svg("clipPath", { id: "inside" }, svg("rect", { x: pad, y: 20, width: width - pad - 20, height: height - pad - 20 }));
    drawing.append(svg("defs", {}, clip));
    for (let x = x0; x <= x1; ++x) drawing.append(svg("line", { class: "axis", x1: px(10 ** x), x2: px(10 ** x), y1: 20, y2: height - pad }), svg("text", { class: "small", x: px(10 ** x), y: height - pad + 16, "text-anchor": "middle" }, String(10 ** x)));
    for (let y = y0; y <= y1; ++y) drawing.append(svg("line", { class: "axis", x1: pad, x2: width - 20, y1: py(10 ** y), y2: py(10 ** y) }), svg("text", { class: "small", x: pad - 6, y: py(10 ** y) + 4, "text-anchor": "end" }, String(10 ** y)));
    for (const [name, speed] of [["memory", memory], ["last-level cache", cache]]) {
      if (!speed) continue;
      drawing.append(svg("line", { x1: px(10 ** x0), y1: py(speed * 10 ** x0), x2: px(10 ** x1), y2: py(speed * 10 ** x1), stroke: "var(--mark)", "clip-path": "url(#inside)" },
        svg("title", {}, `${name}: ${speed.toFixed(0)} GB/s`)));
    }
    for (const p of points) {
      const dot = svg("circle", { cx: px(p.x), cy: py(p.y), r: 4.5, fill: `var(--${p.s.kind})`, "fill-opacity": 0.75, tabindex: 0, style: "cursor: pointer" }, svg("title", {}, `${p.s.step} ${label(p.s)}: ${us(timeOf(p.s))}`));
      dot.addEventListener("click", () => choose(p.s.step));
      dot.addEventListener("keydown", event => { if (event.key === "Enter") choose(p.s.step); });
      drawing.append(dot);
    }
    drawing.append(svg("text", { x: width / 2, y: height - 14, "text-anchor": "middle" }, "operations per byte"), svg("text", { x: 14, y: height / 2, transform: `rotate(-90 14 ${height / 2})`, "text-anchor": "middle" }, "billions of operations per second"));
    redrawChoice = () => {};
    view.replaceChildren(html("p", { class: "faint" }, `Each point is a step${hasTimes ? "" : ", by its predicted time"}. Lines: a copy in memory (${memory.toFixed(0)} GB/s) and in the last-level cache (${cache.toFixed(0)} GB/s), ${data.machine.source}.`), drawing);
  };

  // --- the gap between the bound and the measured run ---
  const drawGap = () => {
    redrawChoice = () => {};
    if (!hasTimes || typeof data.measured_us !== "number") { view.replaceChildren(html("p", {}, "No times were given or measured: fusec report M --times FILE.")); return; }
    const runs = steps.filter(s => !s.once);
    const sum = (list, of) => list.reduce((total, s) => total + (of(s) || 0), 0);
    const generated = runs.filter(s => s.kind === "generated"), library = runs.filter(s => s.kind === "library");
    const bound = sum(generated, s => Math.min(s.bound_us, s.us));
    const parts = [["bounds of generated kernels", bound, "var(--generated)"], ["generated kernels above them", sum(generated, s => s.us) - bound, "var(--heat)"],
      ["library calls", sum(library, s => s.us), "var(--library)"]];
    if (data.advice) for (const [name, value] of Object.entries(data.advice.parts || {})) parts.push(["advice: " + name, value, "var(--once)"]);
    const total = parts.reduce((t, p) => t + p[1], 0);
    parts.push([total > data.measured_us ? "less: steps take longer when timed one by one" : "gaps and the host", data.measured_us - total, "var(--once)"]);
    const width = 900, line = 34, most = Math.max(total, data.measured_us);
    const drawing = svg("svg", { width, height: line * (parts.length + 1) + 10, role: "img", "aria-label": "Parts of the measured time" });
    let at = 0;
    const bar = (name, from, value, colour, i) => drawing.append(
      svg("rect", { x: 260 + Math.min(from, from + value) / most * 520, y: i * line + 6, width: Math.max(1, Math.abs(value) / most * 520), height: 20, fill: colour }),
      svg("text", { x: 250, y: i * line + 21, "text-anchor": "end" }, name), svg("text", { x: 790, y: i * line + 21 }, us(value)));
    parts.forEach(([name, value, colour], i) => { bar(name, at, value, colour, i); at += value; });
    bar("measured run", 0, data.measured_us, "var(--text)", parts.length);
    view.replaceChildren(html("p", { class: "faint" }, `Times: ${data.times}. Steps that are timed one by one, by events or clocks between them, take longer than in the run.`), drawing,
      html("h2", {}, "What takes longest above its bound"), html("table", {}, html("tbody", {}, generated.filter(s => s.us > s.bound_us).sort((p, q) => (q.us - q.bound_us) - (p.us - p.bound_us)).slice(0, 15).map(s =>
        html("tr", { onclick: () => choose(s.step) }, html("td", {}, `${s.step}`), html("td", {}, label(s)), html("td", { class: "number" }, us(s.us)), html("td", { class: "number" }, "bound " + us(s.bound_us)))))));
  };

  // --- memory ---
  const drawMemory = () => {
    const { buffers, arena_bytes: arena } = data.memory, width = 940, height = 420, pad = 70, count = Math.max(1, steps.length);
    const px = step => pad + step / count * (width - pad - 10), py = offset => height - 30 - offset / Math.max(1, arena) * (height - 50);
    const drawing = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Memory over the steps" });
    const live = new Array(count).fill(0);
    buffers.forEach((buffer, i) => {
      for (let s = buffer.first; s <= buffer.last; ++s) live[s] += buffer.bytes;
      drawing.append(svg("rect", { x: px(buffer.first), y: py(buffer.offset + buffer.bytes), width: Math.max(1, px(buffer.last + 1) - px(buffer.first) - 0.5),
        height: Math.max(0.5, py(buffer.offset) - py(buffer.offset + buffer.bytes) - 0.5), fill: `hsl(${i * 47 % 360} 45% 55%)`, "fill-opacity": 0.8 },
        svg("title", {}, `${bytes(buffer.bytes)}, steps ${buffer.first} to ${buffer.last}, at ${bytes(buffer.offset)}`)));
    });
    drawing.append(svg("polyline", { fill: "none", stroke: "var(--text)", "stroke-width": 1.5, points: live.map((v, s) => `${px(s)},${py(v)} ${px(s + 1)},${py(v)}`).join(" ") }));
    for (const part of [0, 0.5, 1]) drawing.append(svg("text", { class: "small", x: pad - 6, y: py(arena * part) + 4, "text-anchor": "end" }, bytes(arena * part)));
    drawing.append(svg("text", { class: "small", x: width / 2, y: height - 8, "text-anchor": "middle" }, `steps 0 to ${count - 1}`));
    redrawChoice = () => {};
    view.replaceChildren(html("p", { class: "faint" }, `Values between steps, at their places in memory of ${bytes(arena)}; the line is what is alive, at most ${bytes(Math.max(0, ...live))}. Without workspaces of libraries, and without values that take over memory. Weights: ${bytes(data.constant_bytes)}.`), drawing);
  };

  // --- times of compiling ---
  const drawTimes = () => {
    const most = Math.max(1e-9, ...data.stages.map(s => s.ms));
    redrawChoice = () => {};
    view.replaceChildren(html("p", { class: "faint" }, "Stages of this compile up to the choice of candidates."), html("table", {}, html("tbody", {}, data.stages.map(s =>
      html("tr", {}, html("td", {}, s.stage), html("td", { class: "number" }, s.ms.toFixed(2) + " ms"), html("td", { style: "width: 60%" },
        html("div", { style: `background: var(--library); height: 12px; width: ${100 * s.ms / most}%` })))))));
  };

  // --- changes since another report ---
  const drawChanges = () => {
    const value = v => v === null ? "-" : typeof v === "number" ? v.toLocaleString("en", { maximumFractionDigits: 1 }) : String(v);
    redrawChoice = () => {};
    view.replaceChildren(data.changes.length ? html("table", {}, html("thead", {}, html("tr", {}, ["what", "before", "now", "implementation"].map(t => html("th", {}, t)))),
      html("tbody", {}, data.changes.map(c => html("tr", {}, html("td", {}, c.what), html("td", { class: "number" }, value(c.before)),
        html("td", { class: "number" + (c.before !== null && c.now > c.before ? " worse" : "") }, value(c.now)), html("td", {}, c.implementation || ""))))) : html("p", {}, "Nothing differs."));
  };

  // --- the page ---
  document.getElementById("title").textContent = data.model;
  document.title = `${data.model.split("/").pop()} - fusec report`;
  const symbols = Object.entries(data.symbols || {}).map(([name, value]) => `${name}=${value}`).join(" ");
  document.getElementById("summary").textContent = `${data.target}, ${data.precision}${symbols ? ", " + symbols : ""}: ${data.ops} ops in ${data.launches} launches (${data.generated} generated, ${data.library} library), ` +
    `${data.distinct_kernels} distinct kernels; ` + (typeof data.measured_us === "number" ? `a run takes ${us(data.measured_us)} (${data.times})` : "no times") + (data.notes || []).map(note => "; " + note).join("");
  const tabs = [["Graph", drawGraph], ["Steps", drawSteps], ["Roofline", drawRoofline], ["Gap", drawGap], ["Memory", drawMemory], ["Compile", drawTimes]];
  if (data.changes) tabs.push(["Changes", drawChanges]);
  const bar = document.getElementById("tabs");
  const buttons = tabs.map(([name, draw], i) => html("button", { role: "tab", id: "tab" + i, onclick: () => open(i) }, name));
  const open = index => {
    buttons.forEach((button, i) => { button.setAttribute("aria-selected", String(i === index)); button.tabIndex = i === index ? 0 : -1; });
    location.replace("#" + tabs[index][0].toLowerCase());
    tabs[index][1]();
  };
  bar.append(...buttons);
  bar.addEventListener("keydown", event => {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!way) return;
    const next = (buttons.indexOf(document.activeElement) + way + buttons.length) % buttons.length;
    open(next);
    buttons[next].focus();
  });
  const [wanted, step] = location.hash.slice(1).split(":");
  open(Math.max(0, tabs.findIndex(([name]) => name.toLowerCase() === wanted)));
  if (step) choose(Number(step));
})();
