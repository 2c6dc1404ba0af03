/* Molecules as chemists draw them: balls in the colours of the elements, a line for each order of a bond, charges beside them. */

const CPK = {
  H: "#e9edf0", C: "#5a6268", N: "#3358e0", O: "#e0352b", F: "#79c257", Cl: "#2faa35", Br: "#9c3324", I: "#8320a8",
  P: "#ee8122", S: "#e2b714", B: "#eb9c96", Si: "#cda073", Se: "#e39a1e",
};
const OTHER_ELEMENT = "#b06fc4";
const ANGSTROM = { heavy: 0.3, hydrogen: 0.2, apart: 0.17, line: 0.07 }; // sizes of balls, and of lines and what is between them
const ORDERS = { single: 1, double: 2, triple: 3, aromatic: 2 };
const SHINY = 400; // atoms: more are drawn flat, which is faster

class MoleculeView extends GraphView {
  /** Whether the graph has elements, and bonds that are not compared with true ones. */
  molecular() {
    const { graph } = this;
    return graph !== null && graph.symbols !== null && graph.dimensions === 3 && !(graph.truth && graph.predicted)
      && graph.typeNames.every((name) => name in ORDERS);
  }

  /** Pixels per ångström at a node, which are more the nearer it is. */
  pixels(node) {
    return (this.unit() * this.scale * EYE) / (EYE + 1 - 2 * this.depth[node]);
  }

  ball(node) {
    const hydrogen = this.graph.symbols[node] === "H";
    return Math.max((hydrogen ? ANGSTROM.hydrogen : ANGSTROM.heavy) * this.pixels(node), hydrogen ? 1.5 : 2.2);
  }

  reach(node) { return this.molecular() ? this.ball(node) : 0; }

  /** Colours fade into the ground with the distance. */
  faded(colour, depth) {
    return blend(this.colours.ground, colour, 0.45 + 0.55 * Math.min(Math.max(depth, 0), 1));
  }

  element(node) {
    return CPK[this.graph.symbols[node]] ?? OTHER_ELEMENT;
  }

  /** Atoms and bonds together, the nearest last. */
  drawEdges() {
    if (!this.molecular()) { super.drawEdges(); return; }
    const { graph, kinds, depth } = this, things = [];
    this.order = [];
    for (let pair = 0; pair < graph.pairs; pair++) {
      if (!this.shown(kinds[pair], graph.types ? graph.types[pair] : -1)) continue;
      this.order.push(pair);
      things.push([(depth[graph.source[pair]] + depth[graph.target[pair]]) / 2 - 0.01, pair, true]);
    }
    for (let node = 0; this.layers.nodes && node < graph.nodes; node++) {
      if (!graph.nodeTypes || this.layers[`node${graph.nodeTypes[node]}`] !== false) things.push([depth[node], node, false]);
    }
    things.sort((a, b) => a[0] - b[0]);
    for (const [, number, isBond] of things) isBond ? this.bond(number) : this.atom(number);
    this.context.setLineDash([]);
  }

  drawNodes() {
    if (!this.molecular()) super.drawNodes();
  }

  /** Parallel lines, each half in the colour of the atom at its end. */
  bond(pair) {
    const { graph, context, seen, depth } = this, ends = [graph.source[pair], graph.target[pair]];
    const name = graph.types ? graph.typeNames[graph.types[pair]] : "single", lines = ORDERS[name] ?? 1;
    const [a, b] = ends.map((node) => [seen[2 * node], seen[2 * node + 1]]), flat = this.flatness(ends, a, b);
    const scale = (this.pixels(ends[0]) + this.pixels(ends[1])) / 2, length = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1;
    const apart = Math.max(ANGSTROM.apart * scale, 2.6), across = [-(b[1] - a[1]) / length, (b[0] - a[0]) / length];
    const middle = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
    context.lineWidth = Math.max((lines === 1 ? 1.5 : 1) * ANGSTROM.line * scale, 1.2);
    context.lineCap = "butt";
    for (let line = 0; line < lines; line++) {
      const off = (line - (lines - 1) / 2) * apart;
      const dashed = name === "aromatic" && line === this.inner(pair, ends, across);
      context.setLineDash(dashed ? [0.17 * scale, 0.12 * scale] : []);
      [a, b].forEach((centre, side) => {
        const inside = (0.9 * flat * this.ball(ends[side])) / length, end = centre.map((at, axis) => at + inside * ([b, a][side][axis] - at));
        context.strokeStyle = this.faded(this.ofBond(ends[side]), depth[ends[side]]);
        context.beginPath();
        context.moveTo(end[0] + off * across[0], end[1] + off * across[1]);
        context.lineTo(middle[0] + off * across[0], middle[1] + off * across[1]);
        context.stroke();
      });
    }
  }

  /** How much of a bond's length is seen: 1 if it lies across the view, 0 if it points to the eye. */
  flatness(ends, a, b) {
    const { pos } = this.graph, along = [0, 1, 2].map((axis) => pos[3 * ends[0] + axis] - pos[3 * ends[1] + axis]);
    const scale = (this.pixels(ends[0]) + this.pixels(ends[1])) / 2;
    return this.layers.nodes ? Math.min(Math.hypot(b[0] - a[0], b[1] - a[1]) / (Math.hypot(...along) * scale || 1), 1) : 0;
  }

  /** The white of hydrogen would not be seen on a white page. */
  ofBond(node) {
    return this.graph.symbols[node] === "H" ? "#b4bcc2" : this.element(node);
  }

  /** Which line of an aromatic bond lies inside the ring: on the side of the other aromatic neighbours. */
  inner(pair, ends, across) {
    const { graph, seen } = this;
    this.rings ??= new Map();
    if (!this.rings.has(graph)) {
      const near = Array.from({ length: graph.nodes }, () => []);
      for (let each = 0; each < graph.pairs; each++) {
        if (graph.typeNames[graph.types[each]] !== "aromatic") continue;
        near[graph.source[each]].push(graph.target[each]);
        near[graph.target[each]].push(graph.source[each]);
      }
      this.rings.set(graph, near);
    }
    let side = 0;
    for (const node of ends) {
      for (const other of this.rings.get(graph)[node]) {
        if (!ends.includes(other)) {
          side += (seen[2 * other] - seen[2 * node]) * across[0] + (seen[2 * other + 1] - seen[2 * node + 1]) * across[1];
        }
      }
    }
    return side > 0 ? 1 : 0;
  }

  atom(node) {
    const { context, seen, graph } = this, radius = this.ball(node), [x, y] = [seen[2 * node], seen[2 * node + 1]];
    const colour = this.faded(this.element(node), this.depth[node]);
    context.beginPath();
    context.arc(x, y, radius, 0, 7);
    context.fillStyle = colour;
    context.fill();
    if (graph.nodes <= SHINY && radius > 3) {
      const light = context.createRadialGradient(x - 0.35 * radius, y - 0.4 * radius, 0.05 * radius, x, y, radius);
      light.addColorStop(0, "rgb(255 255 255 / 0.55)");
      light.addColorStop(0.45, "rgb(255 255 255 / 0.06)");
      light.addColorStop(1, "rgb(0 0 0 / 0.22)");
      context.fillStyle = light;
      context.fill();
    }
    context.lineWidth = 0.8;
    context.strokeStyle = "rgb(20 30 40 / 0.35)";
    context.setLineDash([]);
    context.stroke();
  }

  /** Charges, hydrogens that are not drawn, and the symbols of all atoms but carbon and hydrogen. */
  drawLabels() {
    if (!this.molecular()) { super.drawLabels(); return; }
    const { context, graph, seen, depth, colours } = this;
    const order = Array.from({ length: graph.nodes }, (_, node) => node).sort((a, b) => depth[a] - depth[b]);
    context.textBaseline = "middle";
    context.lineJoin = "round";
    for (const node of order) {
      const text = this.text(node);
      if (!text) continue;
      const radius = this.ball(node), [x, y] = [seen[2 * node] + 0.75 * radius + 1, seen[2 * node + 1] - 0.75 * radius - 3];
      context.font = `600 ${Math.min(Math.max(radius, 11), 16)}px system-ui, sans-serif`;
      context.lineWidth = 3;
      context.strokeStyle = colours.ground;
      context.strokeText(text, x, y);
      context.fillStyle = colours.ink;
      context.fillText(text, x, y);
    }
  }

  text(node) {
    const { graph } = this, symbol = graph.symbols[node];
    const state = /^([+-]?\d|shared)(?: H(\d?))?$/.exec(graph.nodeTypes ? graph.nodeNames[graph.nodeTypes[node]] : "0");
    const charge = state && !["0", "shared"].includes(state[1]) ? state[1] : "";
    const sign = charge ? `${charge[1] === "1" ? "" : charge[1]}${charge[0] === "-" ? "−" : "+"}` : "";
    const hydrogens = state && state[2] !== undefined ? `H${"₀₁₂₃₄"[state[2] || 1].replace("₁", "")}` : "";
    if (!sign && (symbol === "C" || symbol === "H")) return "";
    return `${symbol}${hydrogens}${[...sign].map((letter) => ({ "+": "⁺", "−": "⁻", 2: "²", 3: "³" })[letter] ?? letter).join("")}`;
  }
}
