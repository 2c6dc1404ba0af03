/* The page of gln play: points that a reader places and drags, and what the model says of them at once. */

const LEVELS = 65_000, FAINT = 0.005; // probabilities are drawn in so many levels; pairs that stay below are not
const MOST = 2000; // points
const USUAL = 50; // points at the beginning
const LARGEST_FILE = 20e6;
const NARROWEST = 1e-14, WIDEST = 1e18; // spreads whose squared distances fit into single precision

/** A drawing whose points can be placed, dragged and selected; `edit` says what then happens. */
class Board extends GraphView {
  /** Show another graph over the same view, unless it must be fitted anew. */
  renew(graph, palette, fit) {
    if (fit || this.graph?.dimensions !== graph.dimensions) { this.show(graph, palette); return; }
    this.graph = graph;
    this.kinds = new Uint8Array(graph.pairs);
    this.strength = new Float32Array(graph.pairs);
    if (this.depth.length !== graph.nodes) {
      this.seen = new Float32Array(graph.nodes * 2);
      this.depth = new Float32Array(graph.nodes).fill(1);
    }
    if (this.hit?.pair !== undefined) this.point((this.hit = null));
    this.expect();
  }

  large() { return false; } // its points move

  measure() {
    super.measure();
    if (this.graph.nodes > 1) return;
    const { dimensions, pos, nodes } = this.graph; // too few to say how large the view should be
    this.centre = nodes ? [...pos] : new Array(dimensions).fill(0.5);
    this.extent = new Array(dimensions).fill(1);
  }

  /** Where a point of the canvas is among the nodes of a flat graph. */
  spot(x, y) {
    const unit = this.unit() * this.scale;
    return [this.centre[0] + (x - this.width / 2 - this.shift[0]) / unit, this.centre[1] - (y - this.height / 2 - this.shift[1]) / unit];
  }

  /** How far a node moves if it is dragged by so many pixels: in a solid graph, parallel to the screen. */
  stride(node, dx, dy) {
    const unit = this.unit() * this.scale;
    if (this.graph.dimensions === 2) return [dx / unit, -dy / unit];
    const r = this.turned, eye = EYE * this.radius, near = (2 * this.depth[node] - 1) * this.radius;
    const size = (unit * eye) / (eye - near), [right, up] = [dx / size, -dy / size];
    return [0, 1, 2].map((axis) => r[axis] * right + r[3 + axis] * up);
  }

  listen() {
    const { canvas, pointers } = this;
    let held = null;
    const where = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const own = (name, action) => canvas.addEventListener(name, (event) => { if (action(event)) event.stopImmediatePropagation(); });
    own("pointerdown", (event) => {
      const hit = event.button === 0 && !pointers.size ? this.find(...where(event), event.pointerType === "touch" ? 20 : 10) : null;
      if (hit?.node === undefined) return false;
      canvas.setPointerCapture(event.pointerId);
      held = { node: hit.node, id: event.pointerId, at: where(event), moved: 0 };
      this.point(null);
      return true;
    });
    own("pointermove", (event) => {
      if (held?.id !== event.pointerId) {
        if (!pointers.size) canvas.classList.toggle("over", this.find(...where(event))?.node !== undefined);
        return false;
      }
      const now = where(event), [dx, dy] = [now[0] - held.at[0], now[1] - held.at[1]];
      held.moved += Math.abs(dx) + Math.abs(dy);
      if (held.moved > 3) this.edit.move(held.node, this.stride(held.node, dx, dy));
      held.at = now;
      return true;
    });
    own("pointerup", (event) => {
      if (held?.id === event.pointerId) {
        if (held.moved <= 3) this.edit.select(held.node);
        held = null;
        return true;
      }
      const pressed = pointers.size === 1 && this.moved <= 4 && event.button === 0;
      if (pressed && this.graph?.dimensions === 2) this.edit.add(this.spot(...where(event)));
      return false;
    });
    own("pointercancel", (event) => { if (held?.id === event.pointerId) held = null; return false; });
    own("contextmenu", (event) => {
      event.preventDefault();
      const hit = this.find(...where(event));
      if (hit?.node !== undefined) this.edit.remove(hit.node);
      return true;
    });
    own("dblclick", () => true); // two quick clicks are two points
    super.listen();
  }
}

/** The points in a text: { pos, width }, or a sentence. Rows of numbers, perhaps under names of columns. */
function readPoints(text, name, wanted) {
  const lines = text.split(/\r\n|\n|\r/).map((line) => line.trim()).filter((line) => line && !line.startsWith("#"));
  if (!lines.length) return `${name} is empty; expected a row of numbers for each point.`;
  if (lines.length > MOST + 1) return `${name} holds ${whole(lines.length)} rows; this page takes up to ${whole(MOST)} points: use gln predict for more.`;
  const mark = [",", ";", "\t"].find((one) => lines[0].includes(one)) ?? /\s+/;
  const cells = (line) => line.split(mark).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1"));
  const number = (cell) => (cell === "" ? NaN : Number(cell)), first = cells(lines[0]);
  const headed = first.every((cell) => Number.isNaN(number(cell)));
  const names = headed ? first.map((cell) => cell.toLowerCase()) : [];
  let columns = ["x", "y", "z"].map((axis) => names.indexOf(axis)).filter((column) => column >= 0);
  if (columns.length < 2) columns = (headed && lines[1] ? cells(lines[1]) : first).map((cell, column) => (Number.isFinite(number(cell)) ? column : -1)).filter((column) => column >= 0);
  const width = wanted.find((one) => one === columns.length) ?? wanted.filter((one) => one < columns.length).at(-1);
  if (!width) return `${name} has ${columns.length} columns of numbers; expected ${Math.min(...wanted)}, such as x and y.`;
  columns = columns.slice(0, width);
  const rows = lines.slice(headed ? 1 : 0), pos = new Float64Array(rows.length * width);
  if (!rows.length) return `${name} has names of columns but no points below them.`;
  for (let row = 0; row < rows.length; row++) {
    const found = cells(rows[row]);
    for (let axis = 0; axis < width; axis++) {
      const value = number(found[columns[axis]] ?? "");
      if (!Number.isFinite(value)) return `${name}, row ${row + 1}: “${shorten(found[columns[axis]] ?? "", 20)}” is no number; expected ${width} numbers per point.`;
      pos[row * width + axis] = value;
    }
  }
  return misfit(pos, width, name) || { pos, width };
}

/** Why points cannot be computed with, as a sentence; empty if they can. */
function misfit(pos, width, name) {
  const far = spread(pos, width);
  return far && !(far >= NARROWEST && far <= WIDEST) ? `${name} spreads over ${far.toExponential(0)}; expected ${NARROWEST} to 1e18, so change the unit.` : "";
}

/** The bytes of numbers as letters that a link may hold, and back. */
const toLetters = (numbers) => btoa(String.fromCharCode(...new Uint8Array(numbers.buffer))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
const fromLetters = (text) => {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  return new Float32Array(bytes.buffer);
};

class Play extends Page {
  drawing(canvas, point) {
    const board = new Board(canvas, point);
    board.edit = {
      add: (place) => this.add(place),
      move: (node, by) => this.move(node, by),
      select: (node) => this.select(node === this.selected ? null : node),
      remove: (node) => this.remove(node),
    };
    return board;
  }

  /** Choose a model; points stay if it reads as many coordinates. */
  open(number) {
    const { models } = this.data, model = models[number], { dimensions } = model, begins = this.model === undefined;
    this.pause();
    if (begins) this.begin();
    this.number = number;
    this.model = model;
    this.found = null;
    element("model").value = number;
    element("count").max = dimensions === 3 ? 144 : 300;
    this.worker.postMessage({ model, wasm: this.data.wasm });
    this.threshold = model.own;
    element("canvas").classList.toggle("solid", dimensions === 3);
    element("hint").textContent = dimensions === 3 ? "drag a point · drag beside it to rotate" : `${matchMedia("(pointer: coarse)").matches ? "tap" : "click"} to place a point · drag one`;
    if (begins && this.fromLink()) return;
    if (!begins && this.pos.length && this.width === dimensions) this.ask(true);
    else this.example();
  }

  begin() {
    const code = new Blob([element("worker").textContent], { type: "text/javascript" }), { data } = this;
    this.worker = new Worker(URL.createObjectURL(code));
    this.worker.onmessage = ({ data: found }) => this.receive(found);
    this.worker.onerror = () => this.notice("This browser cannot run the model here; open the page in a newer one.");
    Object.assign(this, { pos: new Float32Array(0), width: 2, selected: null, asked: 0, answered: 0, turn: 0, frames: 0, first: 0 });
    element("model").append(...data.models.map((model, index) => make("option", { value: index }, `${model.name} (${model.dimensions}-D)`)));
    element("title").textContent = data.title;
    window.addEventListener("hashchange", () => this.fromLink());
  }

  get nodes() { return this.pos.length / this.width; }

  /** Show other points, and fit the view to them. */
  load(pos, width) {
    const centred = centre(pos, width);
    Object.assign(this, { pos: Float32Array.from(centred), width, selected: null, found: null });
    element("notice").hidden = true;
    this.ask(true);
  }

  /** One of the sets that came with the page, or random points. */
  example(count = null) {
    const { examples, dimensions } = this.model;
    if (examples.length && count === null) {
      const pos = decode(examples[this.turn++ % examples.length], Float32Array);
      this.load(pos, dimensions);
      return;
    }
    this.load(dimensions === 2 ? scattered(count ?? USUAL) : torus(count ?? USUAL), dimensions);
  }

  add(place) {
    if (this.nodes >= MOST) { this.notice(`This page takes up to ${whole(MOST)} points.`); return; }
    const pos = new Float32Array(this.pos.length + this.width);
    pos.set(this.pos);
    pos.set(place, this.pos.length);
    this.pos = pos;
    this.redraw();
    this.ask();
  }

  move(node, by) {
    by.forEach((step, axis) => { this.pos[node * this.width + axis] += step; });
    this.view.render(); // its edges move along until the answer comes
    this.ask();
  }

  remove(node) {
    if (node === null || node >= this.nodes) return;
    const { width } = this, pos = new Float32Array(this.pos.length - width);
    pos.set(this.pos.subarray(0, node * width));
    pos.set(this.pos.subarray((node + 1) * width), node * width);
    this.pos = pos;
    this.found = null; // its pairs are counted by the old nodes
    this.select(null);
    this.redraw();
    this.ask();
  }

  select(node) {
    this.selected = node;
    element("remove").disabled = node === null;
    this.view.hit = node === null ? null : { node };
    this.view.render();
    if (node !== null) element("said").textContent = `point ${node} selected`;
  }

  /** Ask for the graph over the points as they are now; while one is computed, only the newest question waits. */
  ask(fit = false) {
    this.fit = this.fit || fit;
    this.asked++;
    if (this.busy) return;
    if (!this.nodes) { this.busy = false; this.answered = this.asked; this.redraw(); return; }
    this.busy = this.asked;
    if (this.fit) this.redraw();
    this.worker.postMessage({ pos: this.pos.slice(), nodes: this.nodes });
  }

  receive(found) {
    const { busy } = this;
    this.busy = 0;
    this.answered = busy;
    if (found.error) this.notice(`The graph could not be computed (${found.error}); use fewer points.`);
    else if (this.nodes === found.nodes) this.found = found;
    this.frames++;
    this.first ||= performance.now(); // since the page was opened
    if (this.asked > busy) this.ask();
    this.redraw();
  }

  /** When what was asked has been answered. */
  async settled() {
    while (this.busy || this.answered < this.asked) await new Promise((done) => setTimeout(done, 5));
    return this.found;
  }

  /** Draw the points where they are, with what was last found of them. */
  redraw() {
    const { model, data, found, fit } = this, last = (this.graph?.steps ?? 0) - 1, end = this.step === last || this.step === undefined || !this.graph?.pairs;
    this.fit = false;
    const graph = (this.graph = this.packed(found)), several = graph.steps > 1;
    this.step = end ? graph.steps - 1 : Math.min(this.step, graph.steps - 1);
    if (fit) this.select(null);
    this.view.renew(graph, data.groups, fit);
    if (this.selected !== null) this.view.hit = { node: this.selected };
    element("count").value = Math.min(graph.nodes, element("count").max);
    setRange(element("count"), 3, Number(element("count").max), element("count").value, `${graph.nodes} points`);
    element("count-value").textContent = whole(graph.nodes);
    element("name").textContent = found ? `${whole(graph.nodes)} points · ${whole(found.count / 2)} pairs scored in ${found.took < 1000 ? `${Number(found.took.toPrecision(2))} ms` : `${Number((found.took / 1000).toPrecision(2))} s`}` : "";
    element("recurrence").hidden = !several;
    element("scores").hidden = !graph.truth;
    element("decision").hidden = !graph.graded;
    element("ramp").hidden = graph.truth || !graph.graded;
    document.body.classList.toggle("blind", !graph.truth);
    const kind = `${model.name} ${graph.truth} ${graph.steps}`;
    if (kind !== this.listed) { // these do not change while a point is dragged
      this.listed = kind;
      this.listLayers();
      this.listSteps();
      this.describe();
    }
    this.update();
  }

  /** What the worker found, as a graph that can be drawn. */
  packed(found) {
    const { model, pos, width, nodes } = this, steps = model.config.steps + 1, truth = model.truth === "delaunay" && nodes > 2;
    const true_ = truth ? delaunayPairs(pos, nodes) : new Set(), source = [], target = [], at = [];
    if (found) {
      for (let pair = 0; pair < found.count; pair++) {
        const i = found.source[pair], j = found.target[pair];
        if (i > j) continue;
        const listed = truth && true_.delete(i * nodes + j);
        if (!listed && found.chances.every((step) => step[pair] < FAINT)) continue;
        source.push(i);
        target.push(j);
        at.push(listed ? -1 - pair : pair);
      }
      for (const key of true_) { // no candidates, so never found
        source.push(Math.floor(key / nodes));
        target.push(key % nodes);
        at.push(null);
      }
    }
    const count = at.length, chances = new Uint16Array(count * steps), bits = new Uint8Array((count >> 3) + 1);
    at.forEach((pair, index) => {
      if (pair === null || pair < 0) bits[index >> 3] |= 1 << (index & 7);
      if (pair === null) return;
      const from = pair < 0 ? -1 - pair : pair;
      for (let step = 1; step < steps; step++) chances[step * count + index] = Math.floor(found.chances[step - 1][from] * LEVELS);
    });
    return new Graph({
      name: model.name, nodes, dimensions: width, pos, source: Uint16Array.from(source), target: Uint16Array.from(target),
      truth: truth && found !== null, chances, true: bits, levels: LEVELS, steps, first: 0, own: model.own,
    }, this.data.thresholds);
  }

  describe() {
    const { graph, model } = this, { sparse, candidates } = model.config;
    const scored = sparse ? `Each point is scored with its ${candidates} nearest.` : `Up to 128 points are scored over all pairs, more over the ${candidates} nearest of each.`;
    element("threshold-note").textContent = `The model's own is ${this.threshold_text(graph.own)}.`;
    element("facts").textContent = `${graph.truth ? "Compared with the exact Delaunay triangulation. " : ""}A⁰ is empty; below each step is its ${graph.truth ? "F1" : "number of edges"}. ${scored} Nothing leaves this device.`;
  }

  typeThreshold(text) {
    const value = Number(text), { thresholds, models } = this.data;
    if (text.trim() === "" || !(value >= 0 && value <= 1)) { this.update(); return; }
    let place = thresholds.findIndex((offered) => offered >= value - 1e-9);
    if (place < 0) place = thresholds.length;
    if (Math.abs((thresholds[place] ?? 2) - value) > 1e-9) {
      thresholds.splice(place, 0, value);
      for (const model of models) if (model.own >= place) model.own++;
    }
    this.threshold = place;
    this.redraw();
  }

  goToGraph() {} // there is one

  notice(words, kind = false) {
    const bar = element("notice");
    bar.firstElementChild.textContent = words;
    bar.classList.toggle("kind", kind);
    bar.hidden = false;
  }

  /** The points that the address holds; false if it holds none. */
  fromLink() {
    const said = new URLSearchParams(location.hash.slice(1));
    if (!said.has("points")) return false;
    const number = this.data.models.findIndex((model) => model.name === said.get("model"));
    const model = this.data.models[Math.max(number, 0)];
    let pos = null;
    try { pos = fromLetters(said.get("points")); } catch { /* said below */ }
    if (!pos || pos.length % model.dimensions || !pos.every(Number.isFinite) || pos.length > MOST * model.dimensions || misfit(pos, model.dimensions, "")) {
      this.example();
      this.notice("The link is broken: it holds no points that can be read. Here are others.");
      return true;
    }
    const missing = number < 0 && said.has("model");
    if (number >= 0 && number !== this.number) { this.pos = new Float32Array(0); this.open(number); }
    this.load(pos, model.dimensions);
    if (missing) this.notice(`This page has no model “${shorten(said.get("model"), 30)}”; ${model.name} is shown instead.`);
    return true;
  }

  async share() {
    const link = `${location.href.split("#")[0]}#model=${encodeURIComponent(this.model.name)}&points=${toLetters(this.pos)}`;
    history.replaceState(null, "", link);
    try {
      await navigator.clipboard.writeText(link);
      this.notice("The link is copied: it holds the points.", true);
    } catch {
      this.notice("The link is in the address bar: it holds the points.", true);
    }
  }

  async read(file) {
    if (!file) return;
    if (file.size > LARGEST_FILE) { this.notice(`${file.name} has ${whole(file.size)} bytes; this page takes up to ${whole(MOST)} points: use gln predict for more.`); return; }
    const wanted = [...new Set(this.data.models.map((model) => model.dimensions))].sort();
    const found = readPoints(await file.text(), shorten(file.name, 40), wanted);
    if (typeof found === "string") { this.notice(found); return; }
    if (found.width !== this.model.dimensions) {
      this.pos = new Float32Array(0);
      this.open(this.data.models.findIndex((model) => model.dimensions === found.width));
    }
    this.load(found.pos, found.width);
  }

  controls() {
    const click = (id, action) => element(id).addEventListener("click", action), nudge = 0.02;
    document.addEventListener("keydown", (event) => { // before the keys of every page
      if (event.ctrlKey || event.metaKey || event.altKey || element("keys").open) return;
      if (["INPUT", "SELECT"].includes(event.target.tagName) || (event.key === "Enter" && event.target.tagName === "BUTTON")) return;
      const { selected, view, nodes } = this, far = nudge * Math.min(view.width, view.height);
      const way = { ArrowLeft: [-far, 0], ArrowRight: [far, 0], ArrowUp: [0, -far], ArrowDown: [0, far] }[event.key];
      if (way && selected !== null) this.move(selected, view.stride(selected, ...way));
      else if (event.key === "n" && nodes) this.select(((selected ?? -1) + 1) % nodes);
      else if (event.key === "p" && nodes) this.select(((selected ?? 0) - 1 + nodes) % nodes);
      else if (event.key === "Escape" && selected !== null) this.select(null);
      else if (["Delete", "Backspace"].includes(event.key)) this.remove(selected);
      else if (event.key === "Enter" && this.width === 2) { this.add(view.spot(view.width / 2, view.height / 2)); this.select(this.nodes - 1); }
      else return;
      event.preventDefault();
      event.stopImmediatePropagation();
    });
    super.controls();
    click("random", () => this.example(this.model.dimensions === 2 ? Math.max(this.nodes, 3) : null));
    click("clear", () => { this.load([], this.model.dimensions); });
    click("remove", () => this.remove(this.selected));
    click("share", () => this.share());
    click("open", () => element("file").click());
    element("file").addEventListener("change", (event) => { this.read(event.target.files[0]); event.target.value = ""; });
    element("count").addEventListener("input", (event) => this.example(Number(event.target.value)));
    element("model").addEventListener("change", (event) => this.open(Number(event.target.value)));
    element("notice").querySelector("button").addEventListener("click", () => { element("notice").hidden = true; });
    for (const name of ["dragenter", "dragover"]) document.addEventListener(name, (event) => { event.preventDefault(); document.body.classList.add("dropping"); });
    for (const name of ["dragleave", "drop"]) document.addEventListener(name, (event) => { event.preventDefault(); document.body.classList.remove("dropping"); });
    document.addEventListener("drop", (event) => this.read(event.dataTransfer.files[0]));
  }
}

/** Random points in a square. */
function scattered(count) {
  return Float32Array.from({ length: 2 * count }, () => Math.random());
}

/** Points on a torus: a grid of about so many, each a little out of place. */
function torus(count) {
  const side = Math.max(Math.round(Math.sqrt(count)), 3), pos = [];
  const angle = (step) => (2 * Math.PI * (step + 0.3 * (Math.random() - 0.5))) / side;
  for (let row = 0; row < side; row++) {
    for (let column = 0; column < side; column++) {
      const around = angle(column), across = angle(row), far = 3.2 + 1.4 * Math.cos(across);
      pos.push(far * Math.cos(around), far * Math.sin(around), 1.4 * Math.sin(across));
    }
  }
  return pos;
}

/** Coordinates so large that single precision would lose what keeps points apart are counted from their mean. */
function centre(pos, width) {
  const mean = new Array(width).fill(0), count = pos.length / width;
  let most = 0;
  pos.forEach((value, index) => { mean[index % width] += value / count; most = Math.max(most, Math.abs(value)); });
  return most > 500 * spread(pos, width) ? pos.map((value, index) => value - mean[index % width]) : pos;
}

/** The widest range of a coordinate. */
function spread(pos, width) {
  const low = new Array(width).fill(Infinity), high = new Array(width).fill(-Infinity);
  pos.forEach((value, index) => {
    low[index % width] = Math.min(low[index % width], value);
    high[index % width] = Math.max(high[index % width], value);
  });
  return pos.length ? Math.max(...high.map((most, axis) => most - low[axis])) : 0;
}

/** The edges of the Delaunay triangulation, each as i · nodes + j with i < j. */
function delaunayPairs(pos, nodes) {
  const { triangles } = new Delaunator(pos), pairs = new Set();
  for (let corner = 0; corner < triangles.length; corner++) {
    const i = triangles[corner], j = triangles[corner % 3 === 2 ? corner - 2 : corner + 1];
    pairs.add(Math.min(i, j) * nodes + Math.max(i, j));
  }
  return pairs;
}

window.page = new Play(JSON.parse(element("data").textContent));
