/* The page: sliders, layers, numbers and keys around one GraphView. */

const FEW = 100; // nodes, whose symbols are shown from the start
const PACE = 950, GLIDE = 520; // milliseconds per step, and of the transition between two

/** The type of an edge or node in words, and its true type if that is another. */
function typeWords(names, types, truth, at) {
  return truth && truth[at] !== types[at] ? `${names[types[at]]}, truly ${names[truth[at]]}` : names[types[at]];
}

class Page {
  constructor(data) {
    this.data = data;
    this.decoded = new Map();
    this.step = this.threshold = 0;
    this.gliding = this.playing = 0;
    document.title = data.title;
    element("title").textContent = data.title;
    this.toggleTheme = dressing(() => this.redress());
    this.view = this.drawing(element("canvas"), (hit, x, y) => this.tell(hit, x, y));
    this.controls();
    this.open(0);
  }

  drawing(canvas, point) {
    return new MoleculeView(canvas, point);
  }

  /** Show a graph after its last step, at the model's own threshold. */
  open(number) {
    this.pause();
    cancelAnimationFrame(this.gliding);
    const { data } = this, packed = data.views[number];
    if (!this.decoded.has(number)) this.decoded.set(number, new Graph(packed, data.thresholds));
    const graph = (this.graph = this.decoded.get(number));
    const moved = this.number !== undefined && this.chosen; // a threshold that the reader chose stays
    this.number = number;
    this.step = graph.steps - 1;
    this.threshold = moved ? Math.max(this.threshold, graph.first) : graph.own;
    this.view.show(graph, data.groups);

    const total = data.views.length, several = graph.steps > 1;
    element("graphs").hidden = total < 2;
    setRange(element("graph"), 0, total - 1, number, `${number + 1} of ${total}`);
    element("graph-value").textContent = `${number + 1} of ${total}`;
    element("name").textContent = graph.title ? `${graph.name} · ${graph.title}` : graph.name;
    element("recurrence").hidden = !several;
    element("scores").hidden = !(graph.truth && graph.predicted);
    element("decision").hidden = !graph.graded;
    document.body.classList.toggle("blind", graph.predicted && !graph.truth);
    element("ramp").hidden = !(graph.predicted && !graph.truth && graph.graded) || this.view.molecular();
    element("hint").textContent = graph.dimensions === 3 ? "drag to rotate · scroll to zoom" : "drag to move · scroll to zoom";
    this.view.layers.nodes = graph.image === null;
    const covered = Boolean(graph.image && graph.clusters); // edges would hide the regions
    this.view.layers.edges = this.view.layers.right = !covered;
    this.view.layers.labels = graph.symbols !== null && graph.nodes <= FEW;
    this.listLayers();
    this.listSteps();
    this.describe();
    this.update();
  }

  /** Update everything that depends on step and threshold. */
  update(animate = false, from = this.step) {
    const { graph, view, step, threshold } = this, count = graph.count(step, threshold);
    const numbers = {
      right: count.found, missing: count.true - count.found, extra: count.chosen - count.found,
      other: count.other, edges: count.chosen, nodes: graph.nodes, faces: graph.faceCounts[0] + graph.faceCounts[2], clusters: graph.clusters ? Math.max(...graph.clusters) + 1 : 0,
    };
    count.each.forEach((number, type) => { numbers[`type${type}`] = number; });
    graph.nodeNames.forEach((_, type) => { numbers[`node${type}`] = graph.nodeTypes.filter((own) => own === type).length; });
    if (graph.truth && graph.predicted) numbers.right -= count.other;
    for (const [name, number] of Object.entries(numbers)) {
      const shown = element(`count-${name}`);
      if (shown) shown.textContent = whole(number);
    }
    for (const [name, value] of Object.entries(scores(count))) element(name).textContent = value.toFixed(4);
    if (graph.steps > 1) {
      setRange(element("step"), 0, graph.steps - 1, step, `A${raise(step)}, step ${step} of ${graph.steps - 1}`);
      for (const mark of element("marks").children) {
        const number = Number(mark.dataset.step), then = graph.count(number, threshold);
        mark.classList.toggle("now", number === step);
        mark.lastChild.textContent = graph.truth ? scores(then).f1.toFixed(3) : whole(then.chosen);
      }
    }
    if (graph.graded) {
      const value = this.threshold_text(threshold), own = threshold === graph.own;
      setRange(element("threshold"), graph.first, graph.thresholds.length - 1, threshold, own ? `${value}, the initial value` : value);
      element("threshold-value").value = value;
      this.drawCurve();
    }
    cancelAnimationFrame(this.gliding);
    if (animate && !still.matches) this.glide(from);
    else {
      graph.judge(step, threshold, view.kinds, view.strength);
      view.render();
    }
    this.say(numbers);
  }

  /** Animate from one step to the next: edges appear and vanish as their probability crosses the threshold. */
  glide(from) {
    const { graph, view, step, threshold } = this, begin = performance.now();
    const move = (now) => {
      const time = Math.min(Math.max((now - begin) / GLIDE, 0), 1), part = time * time * (3 - 2 * time);
      graph.judge(from, threshold, view.kinds, view.strength, step, part);
      view.render();
      if (time < 1) this.gliding = requestAnimationFrame(move);
    };
    this.gliding = requestAnimationFrame(move);
  }

  goToStep(step) {
    const { graph } = this, next = Math.min(Math.max(step, 0), graph.steps - 1), from = this.step;
    if (next === from) return;
    this.step = next;
    this.update(true, from);
  }

  goToThreshold(index) {
    this.threshold = Math.min(Math.max(index, this.graph.first), this.graph.thresholds.length - 1);
    this.chosen = this.threshold !== this.graph.own;
    this.update();
  }

  /** Go to a threshold that was typed; the slider then offers it too. */
  typeThreshold(text) {
    const value = Number(text), { thresholds, views } = this.data;
    if (text.trim() === "" || !(value >= 0 && value <= 1)) { this.update(); return; }
    let place = thresholds.findIndex((offered) => offered >= value - 1e-9);
    if (place < 0) place = thresholds.length;
    if (Math.abs((thresholds[place] ?? 2) - value) > 1e-9) {
      thresholds.splice(place, 0, value);
      for (const view of views) {
        if (view.own >= place) view.own++;
        if (view.first >= place) view.first++;
      }
      this.decoded.clear();
      this.chosen = true;
      const { step } = this;
      this.threshold = place;
      this.open(this.number);
      this.step = Math.min(step, this.graph.steps - 1);
    }
    this.goToThreshold(place);
  }

  goToGraph(number) {
    const next = Math.min(Math.max(number, 0), this.data.views.length - 1);
    if (next !== this.number) this.open(next);
  }

  play() {
    if (this.playing) { this.pause(); return; }
    if (this.graph.steps < 2) return;
    if (this.step === this.graph.steps - 1) this.goToStep(0);
    this.playing = setInterval(() => {
      this.goToStep(this.step + 1);
      if (this.step === this.graph.steps - 1) this.pause();
    }, PACE);
    this.showPlaying();
  }

  pause() {
    clearInterval(this.playing);
    this.playing = 0;
    this.showPlaying();
  }

  showPlaying() {
    const button = element("play");
    button.setAttribute("aria-pressed", String(Boolean(this.playing)));
    button.setAttribute("aria-label", this.playing ? "Pause" : "Play");
  }

  threshold_text(index) {
    const value = this.graph.thresholds[index], hundredth = Math.round(value * 100) / 100;
    return Math.abs(value - hundredth) < 1e-6 ? hundredth.toFixed(2) : value.toPrecision(4);
  }

  /** The legend; every line shows or hides what it names. */
  listLayers() {
    const { graph, view } = this, list = element("layers");
    const rows = graph.truth && graph.predicted
      ? [["right", "right", "Predicted and true"], ["missing", "missing", "True, but not predicted"], ["extra", "extra", "Predicted, but not true"]]
      : graph.predicted || graph.truth ? [["edges", "edges", ""]] : [];
    if (graph.truth && graph.predicted && graph.types && graph.trueTypes) rows.push(["other", "of another type", "Predicted and true, but of another type than predicted"]);
    const used = (types, type) => !view.molecular() || types?.includes(type); // of a molecule's many states only its own
    graph.typeNames.forEach((name, type) => used(graph.types, type) && rows.push([`type${type}`, name, "Edges of this type"]));
    rows.push(["nodes", graph.image ? "pixels" : "nodes", ""]);
    graph.nodeNames.forEach((name, type) => used(graph.nodeTypes, type) && rows.push([`node${type}`, view.molecular() && /^[+-]?\d$/.test(name) ? `charge ${name}` : name, "Nodes of this type"]));
    if (graph.faces) rows.push(["faces", "faces", "Triangles of the surface; missing ones and those too many have their colours"]);
    if (graph.image) rows.push(["image", "image", ""]);
    if (graph.clusters) rows.push(["clusters", graph.image ? "regions" : "clusters", "Nodes that belong together, by the prediction at the initial threshold"]);
    rows.push(["labels", graph.symbols ? "elements" : "labels", ""]);
    list.replaceChildren(...rows.map(([name, text, title]) => {
      const row = document.createElement("li"), label = document.createElement("label");
      const box = document.createElement("input"), swatch = document.createElement("i");
      const words = document.createElement("span"), number = document.createElement("b");
      Object.assign(box, { type: "checkbox", id: `layer-${name}`, checked: view.layers[name] ?? true });
      box.addEventListener("change", () => {
        view.layers[name] = box.checked;
        if (name === "image") this.showGround();
        view.render();
      });
      swatch.className = `swatch ${name}`;
      const typed = /^(type|node)(\d+)$/.exec(name);
      if (typed && !view.molecular()) dressSwatch(swatch, view, Number(typed[2]), typed[1] === "node");
      words.textContent = text;
      number.id = `count-${name}`;
      label.title = title;
      label.append(box, swatch, words, number);
      row.append(label);
      return row;
    }));
    this.showGround();
  }

  /** On an image, right edges are white. */
  showGround() {
    document.body.classList.toggle("on-image", Boolean(this.graph.image && this.view.layers.image));
  }

  listSteps() {
    const { steps } = this.graph, every = Math.ceil(steps / 12), marks = [];
    for (let step = 0; step < steps; step++) {
      if (step % every && step !== steps - 1) continue;
      const mark = document.createElement("li"), name = document.createElement("i");
      mark.dataset.step = step;
      mark.title = this.graph.truth ? "F1 after this step" : "edges after this step";
      name.textContent = `A${raise(step)}`;
      mark.append(name, document.createElement("small"));
      mark.style.setProperty("--at", step / Math.max(steps - 1, 1));
      mark.addEventListener("click", () => { this.pause(); this.goToStep(step); });
      marks.push(mark);
    }
    element("marks").replaceChildren(...marks);
    element("marks").classList.toggle("many", marks.length > 8);
  }

  /** Notes that do not change with step and threshold. */
  describe() {
    const { graph } = this, facts = [];
    if (graph.truth && graph.predicted) facts.push(`${whole(graph.trueEdges)} true edges over ${whole(graph.nodes)} nodes.`);
    if (graph.steps > 1) {
      facts.push(`A⁰ is what the model starts from; below each step is its ${graph.truth ? "F1" : "number of edges"}.`);
    }
    if (graph.types && graph.steps > 1) facts.push("Types and weights are those after the last step.");
    if (graph.weights) facts.push(`The wider an edge, the larger its weight: up to ${Number(graph.heaviest.toPrecision(3))}.`);
    if (graph.predicted && graph.truth && graph.trueNodeTypes) {
      const wrong = graph.nodeTypes.filter((type, node) => type !== graph.trueNodeTypes[node]).length;
      facts.push(`${whole(wrong)} of ${whole(graph.nodes)} nodes are of another type than predicted (ringed).`);
    }
    if (graph.placedBy) facts.push(`The nodes have no positions: they are placed by their ${graph.placedBy}.`);
    if (this.view.large() && !Painter.get()) facts.push("This browser has no WebGL, so a graph of this size moves slowly.");
    element("facts").textContent = facts.join(" ");
    const note = element("threshold-note");
    note.textContent = !graph.graded ? ""
      : `Initially ${this.threshold_text(graph.own)}. Pairs that stay below ${this.threshold_text(graph.first)} are not on this page; probabilities are rounded to 1/${whole(graph.levels)}, but decisions at the slider's own values are exact.`;
  }

  /** F1 over the threshold, or the share of edges left if there is no truth; the dot is the slider, the dashed line its initial value. */
  drawCurve() {
    const { graph, view } = this, canvas = element("curve"), ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight, inset = 8; // half a thumb
    if (!width) return;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const curve = graph.curve(this.step), last = graph.thresholds.length - 1, span = Math.max(last - graph.first, 1);
    const x = (index) => inset + ((index - graph.first) / span) * (width - 2 * inset);
    const y = (value) => height - 1 - value * (height - 7);
    const line = new Path2D();
    for (let index = graph.first; index <= last; index++) line.lineTo(x(index), y(curve[index]));
    const area = new Path2D(line);
    area.lineTo(x(last), height);
    area.lineTo(x(graph.first), height);
    context.fillStyle = context.strokeStyle = view.colours.right;
    context.globalAlpha = 0.12;
    context.fill(area);
    context.globalAlpha = 0.9;
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    context.stroke(line);
    context.globalAlpha = 0.35;
    context.strokeStyle = context.fillStyle = view.colours.ink;
    context.lineWidth = 1;
    context.setLineDash([2, 3]);
    context.beginPath();
    context.moveTo(x(graph.own), 2);
    context.lineTo(x(graph.own), height);
    context.stroke();
    context.globalAlpha = 1;
    context.beginPath();
    context.arc(x(this.threshold), y(curve[this.threshold]), 3.2, 0, 7);
    context.fill();
  }

  /** Describe what is under the pointer. */
  tell(hit, x, y) {
    const tip = element("tip");
    tip.hidden = !hit;
    if (!hit) return;
    const { graph, view, step, threshold } = this, [head, rest] = tip.children;
    if (hit.node !== undefined) {
      let degree = 0;
      for (const pair of view.order ?? []) {
        if (view.kinds[pair] !== MISSING && (graph.source[pair] === hit.node || graph.target[pair] === hit.node)) degree++;
      }
      const own = graph.symbols || graph.labels, cluster = graph.clusters ? `${graph.image ? "region" : "cluster"} ${graph.clusters[hit.node]}, ` : "";
      head.textContent = shorten(own ? graph.beside(hit.node) : `node ${hit.node}`, 60);
      const type = graph.nodeTypes ? `${typeWords(graph.nodeNames, graph.nodeTypes, graph.predicted ? graph.trueNodeTypes : null, hit.node)}, ` : "";
      rest.textContent = `${own ? `node ${graph.label(hit.node)}, ` : ""}${type}${cluster}${degree} ${degree === 1 ? "edge" : "edges"} shown`;
    } else {
      const kinds = ["", "right", "missing", "extra", "", "", "of another type"], kind = kinds[view.kinds[hit.pair]];
      head.textContent = `${shorten(graph.label(graph.source[hit.pair]), 40)} ${graph.directed ? "→" : "–"} ${shorten(graph.label(graph.target[hit.pair]), 40)}`;
      const chance = graph.probability(step, hit.pair), digits = graph.levels > 255 ? 3 : 2;
      const { pair } = hit, missing = view.kinds[pair] === MISSING, weight = (value) => Number(value.toPrecision(3));
      const type = graph.types ? typeWords(graph.typeNames, missing && graph.trueTypes ? graph.trueTypes : graph.types, graph.predicted && graph.isTrue[pair] ? graph.trueTypes : null, pair) : "";
      const truly = graph.trueWeights && graph.predicted && graph.isTrue[pair] ? `, truly ${weight(graph.trueWeights[pair])}` : "";
      const heavy = graph.weights ? `weight ${weight(graph.weights[pair])}${truly}` : "";
      rest.textContent = [kind, graph.predicted ? `probability ${chance.toFixed(digits)}` : "edge", type, heavy].filter(Boolean).join(", ");
    }
    const stage = element("stage").getBoundingClientRect();
    tip.style.left = `${Math.min(Math.max(x + 14, 8), Math.max(stage.width - tip.offsetWidth - 8, 8))}px`;
    tip.style.top = `${y + 18 + tip.offsetHeight > stage.height - 8 ? Math.max(y - tip.offsetHeight - 12, 8) : y + 18}px`;
  }

  /** Describe the graph to readers who cannot see the canvas. */
  say(numbers) {
    const { graph } = this;
    const edges = graph.truth && graph.predicted
      ? `${numbers.right} edges right, ${numbers.missing} missing, ${numbers.extra} extra${numbers.other ? `, ${numbers.other} of another type` : ""}`
      : `${numbers.edges} edges`;
    const words = `${graph.name || "Graph"}: ${graph.nodes} nodes, ${edges}`;
    element("canvas").setAttribute("aria-label", words);
    clearTimeout(this.saying);
    this.saying = setTimeout(() => { element("said").textContent = words; }, 600);
  }

  /** After a change of theme. */
  redress() {
    this.view?.readColours();
    if (this.graph) this.listLayers();
    if (this.graph) this.update();
    if (this.graph?.graded) this.drawCurve();
  }

  download() {
    const table = new Blob([edgeTable(this.graph, this.step, this.threshold)], { type: "text/csv" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(table);
    link.download = `${this.graph.name.replace(/[^\w.-]+/g, "-").replace(/^-+|-+$/g, "") || "edges"}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  controls() {
    const { view } = this, click = (id, action) => element(id).addEventListener("click", action);
    const slide = (id, action) => element(id).addEventListener("input", (event) => action(Number(event.target.value)));
    slide("graph", (value) => this.goToGraph(value));
    slide("step", (value) => { this.pause(); this.goToStep(value); });
    slide("threshold", (value) => this.goToThreshold(value));
    element("threshold-value").addEventListener("change", (event) => this.typeThreshold(event.target.value));
    click("play", () => this.play());
    click("nearer", () => view.zoom(1.4));
    click("farther", () => view.zoom(1 / 1.4));
    click("reset", () => view.reset());
    click("download", () => this.download());
    click("help", () => element("keys").showModal());
    click("close", () => element("keys").close());
    element("keys").addEventListener("click", (event) => { if (event.target.id === "keys") event.target.close(); });
    new ResizeObserver(() => { if (this.graph?.graded) this.drawCurve(); }).observe(element("curve"));
    const keys = {
      ArrowLeft: () => { this.pause(); this.goToStep(this.step - 1); },
      ArrowRight: () => { this.pause(); this.goToStep(this.step + 1); },
      ArrowUp: () => this.goToGraph(this.number - 1),
      ArrowDown: () => this.goToGraph(this.number + 1),
      "+": () => this.goToThreshold(this.threshold + 1),
      "=": () => this.goToThreshold(this.threshold + 1),
      "-": () => this.goToThreshold(this.threshold - 1),
      " ": () => this.play(),
      d: this.toggleTheme,
      r: () => view.reset(),
      "?": () => element("keys").showModal(),
    };
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || element("keys").open) return;
      const { target } = event, arrow = event.key.startsWith("Arrow");
      if (target.type === "number") return; // digits are typed
      if (target.type === "range" && arrow) return; // a focused slider moves itself
      if (event.key === " " && ["BUTTON", "INPUT"].includes(target.tagName) && target.type !== "range") return;
      const action = keys[event.key];
      if (!action) return;
      event.preventDefault();
      action();
    });
  }
}
