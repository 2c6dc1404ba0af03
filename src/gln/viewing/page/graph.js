/* One graph of a page: its decoded numbers and the arithmetic on them, without any drawing. */

const NOT_SHOWN = 0, RIGHT = 1, MISSING = 2, EXTRA = 3, LIKELY = 4, PLAIN = 5, OTHER = 6; // OTHER: right but for its type

/** Decode base64 into an array of the given kind, unless it is an array already; every machine that runs this is little-endian. */
function decode(text, Kind) {
  if (ArrayBuffer.isView(text)) return text;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Kind(bytes.buffer);
}

class Graph {
  /**
   * @param packed one of the views that Python packed
   * @param thresholds all that the slider offers, ascending
   */
  constructor(packed, thresholds) {
    this.name = packed.name;
    this.nodes = packed.nodes;
    this.title = packed.title ?? "";
    this.labels = packed.labels ?? null; // the user's names of the nodes
    this.symbols = packed.symbols ?? null; // what they are: the elements of atoms
    const Whole = packed.nodes > 65536 ? Uint32Array : Uint16Array;
    this.clusters = packed.clusters ? decode(packed.clusters, Whole) : null;
    this.dimensions = packed.dimensions;
    this.pos = decode(packed.pos, Float32Array);
    this.placedBy = packed.placed_by ?? null; // what the drawing follows if the nodes have no positions
    this.source = decode(packed.source, Whole);
    this.target = decode(packed.target, Whole);
    this.pairs = this.source.length;
    this.faces = packed.faces ? decode(packed.faces, Whole) : null; // corners of triangles: right, missing, extra
    this.faceCounts = packed.face_counts ?? [0, 0, 0];
    this.image = packed.image ? decode(packed.image, Uint8Array) : null;
    this.groups = packed.groups ? decode(packed.groups, Uint8Array) : null;
    this.directed = packed.directed ?? false; // a pair leads from its source to its target
    const bytes = (name) => (packed[name] ? decode(packed[name], Uint8Array) : null);
    this.types = bytes("types"); // of the pairs: as predicted or, without a prediction, as they are
    this.trueTypes = bytes("true_types");
    this.typeNames = packed.type_names ?? [];
    this.dashes = packed.dashes ?? [[]];
    this.weights = packed.weights ? decode(packed.weights, Float32Array) : null;
    this.heaviest = this.weights ? this.weights.reduce((most, weight) => Math.max(most, weight), 0) : 1;
    this.trueWeights = packed.true_weights ? decode(packed.true_weights, Float32Array) : null;
    this.nodeTypes = bytes("node_types");
    this.trueNodeTypes = bytes("true_node_types");
    this.nodeNames = packed.node_names ?? [];
    this.truth = packed.truth;
    this.predicted = packed.chances !== undefined;
    this.thresholds = thresholds;
    this.steps = this.predicted ? packed.steps : 1;
    this.first = packed.first ?? 0; // the lowest threshold that the pairs in the page allow
    this.own = packed.own ?? 0;
    this.levels = packed.levels ?? 1;
    this.cuts = thresholds.map((value) => Math.floor(value * this.levels + 0.5));
    this.isTrue = new Uint8Array(this.pairs);
    if (this.predicted) {
      const bits = decode(packed.true, Uint8Array);
      for (let pair = 0; pair < this.pairs; pair++) this.isTrue[pair] = (bits[pair >> 3] >> (pair & 7)) & 1;
      const all = decode(packed.chances, this.levels > 255 ? Uint16Array : Uint8Array);
      this.chances = Array.from({ length: this.steps }, (_, step) =>
        all.subarray(step * this.pairs, (step + 1) * this.pairs));
      // A method that only answers yes or no has no threshold to move.
      this.graded = all.some((level) => level > 0 && level < this.levels);
    } else {
      if (this.truth) this.isTrue.fill(1);
      this.chances = [];
      this.graded = false;
    }
    this.trueEdges = this.isTrue.reduce((sum, bit) => sum + bit, 0);
  }

  label(node) {
    return this.labels ? this.labels[node] : String(node);
  }

  /** Whether a true edge is predicted with another type. */
  mistyped(pair) {
    return this.predicted && this.types !== null && this.trueTypes !== null && this.types[pair] !== this.trueTypes[pair];
  }

  /** What is written beside a node. */
  beside(node) {
    return this.symbols ? this.symbols[node] : this.label(node);
  }

  /** The probability of a pair after a step; 1 if nothing was predicted. */
  probability(step, pair) {
    return this.predicted ? this.chances[step][pair] / this.levels : 1;
  }

  /**
   * Write the kind of every pair at a threshold into `kinds`, between two steps if `part` is above 0.
   * `strength` receives how far beyond the threshold it is, from 0 to 1.
   */
  judge(step, threshold, kinds, strength, next = step, part = 0) {
    if (!this.predicted) {
      kinds.fill(PLAIN);
      strength.fill(1);
      return;
    }
    const cut = this.cuts[threshold], here = this.chances[step], there = this.chances[next];
    const span = Math.max(this.levels - cut, 1);
    for (let pair = 0; pair < this.pairs; pair++) {
      const level = here[pair] + (there[pair] - here[pair]) * part;
      const chosen = level >= cut;
      kinds[pair] = !this.truth
        ? (chosen ? LIKELY : NOT_SHOWN)
        : chosen ? (this.isTrue[pair] ? (this.mistyped(pair) ? OTHER : RIGHT) : EXTRA) : this.isTrue[pair] ? MISSING : NOT_SHOWN;
      strength[pair] = chosen ? (level - cut) / span : 1;
    }
  }

  /** How many edges are predicted, how many of them are true, or true but for their type, and how many true edges there are; and the edges of each type. */
  count(step, threshold) {
    let chosen = 0, found = 0, other = 0;
    const each = new Array(this.typeNames.length).fill(0);
    const cut = this.predicted ? this.cuts[threshold] : 0, chances = this.predicted ? this.chances[step] : null;
    for (let pair = 0; pair < this.pairs; pair++) {
      if (chances && chances[pair] < cut) continue;
      chosen++;
      if (this.types) each[this.types[pair]]++;
      if (chances && !this.isTrue[pair]) continue;
      found++;
      if (this.mistyped(pair)) other++;
    }
    return { chosen, found, other, each, true: this.trueEdges };
  }

  /** F1 at every threshold; without a truth, the share of pairs that are edges. */
  curve(step) {
    const steps = this.thresholds.length;
    const chosen = new Float64Array(steps + 1), found = new Float64Array(steps + 1);
    const chances = this.chances[step], passed = new Int32Array(this.levels + 1);
    for (let level = 0, index = 0; level <= this.levels; level++) {
      while (index < steps && this.cuts[index] <= level) index++;
      passed[level] = index; // how many thresholds a pair of this level reaches
    }
    for (let pair = 0; pair < this.pairs; pair++) {
      chosen[passed[chances[pair]]]++;
      found[passed[chances[pair]]] += this.isTrue[pair];
    }
    for (let index = steps - 1; index >= 0; index--) {
      chosen[index] += chosen[index + 1];
      found[index] += found[index + 1];
    }
    return this.thresholds.map((_, index) => this.truth
      ? scores({ chosen: chosen[index + 1], found: found[index + 1], true: this.trueEdges }).f1
      : chosen[index + 1] / Math.max(chosen[this.first + 1], 1));
  }
}

/** The scores as Python computes them: all 1 if there was nothing to find and nothing was predicted. */
function scores(count) {
  const nothing = count.chosen + count.true === 0 ? 1 : 0;
  const ratio = (part, whole) => (whole > 0 ? part / whole : nothing);
  return {
    f1: ratio(2 * count.found, count.chosen + count.true),
    precision: ratio(count.found, count.chosen),
    recall: ratio(count.found, count.true),
    iou: ratio(count.found, count.chosen + count.true - count.found),
  };
}

/** The edges at a threshold as CSV, as `gln predict` writes it. */
function edgeTable(graph, step, threshold) {
  const cell = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const rows = [["graph", "source", "target", "probability"]];
  if (graph.types) rows[0].push("type");
  if (graph.weights) rows[0].push("weight");
  if (graph.directed) rows[0].push("direction");
  for (let pair = 0; pair < graph.pairs; pair++) {
    if (graph.predicted && graph.chances[step][pair] < graph.cuts[threshold]) continue;
    const chance = Number(graph.probability(step, pair).toPrecision(5));
    const row = [graph.name, graph.label(graph.source[pair]), graph.label(graph.target[pair]), String(chance)];
    if (graph.types) row.push(graph.typeNames[graph.types[pair]]);
    if (graph.weights) row.push(String(Number(graph.weights[pair].toPrecision(6))));
    if (graph.directed) row.push("forward");
    rows.push(row);
  }
  return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}
