/* GLN in a browser: what models/gln.py computes, with the arithmetic of engine.c. It runs in a worker, without a page. */

const SMALL = 128; // sets of up to this many nodes are scored over all pairs
const TIE = 1 + 1e-6; // distances within this factor count as equal
const LOCAL = 4; // the unit of length at a node is its mean distance to this many nearest nodes
const WAVES = [8, 4, 2, 1, 0.5, 0.25]; // wavelengths in it
const SCALES = [0.1, 0.3, 1, 3, 10]; // lengths in the data's own unit that a pair is compared with
const CHUNK = 128; // pairs at a time: what fits a cache
const MOST_THIRDS = 2 ** 26; // pairs times third nodes: above, nobody would wait for the answer
const up = (count) => (count + 3) & ~3; // to whole fours

/** Memory of the arithmetic: weights stay, and what one set needs is laid out anew for every set. */
class Memory {
  constructor(wasm) {
    this.memory = new WebAssembly.Memory({ initial: 64, maximum: 32768 });
    const module = new WebAssembly.Module(wasm);
    this.calls = new WebAssembly.Instance(module, { env: { memory: this.memory }, js: { log: Math.log } }).exports;
    this.top = 65536; // below are the constants and the stack of the module
  }

  /** Room for so many numbers of 4 bytes: where it begins, in bytes. */
  take(count) {
    const at = this.top;
    this.top = (this.top + 4 * count + 63) & ~63;
    const missing = this.top - this.memory.buffer.byteLength;
    if (missing > 0) this.memory.grow(Math.ceil(missing / 65536));
    return at;
  }

  floats(at, count) { return new Float32Array(this.memory.buffer, at, count); }
  integers(at, count) { return new Int32Array(this.memory.buffer, at, count); }
}

/** Decode base64. */
function bytesOf(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** The pairs of a set as one list, sorted by both ends: all, or every node with its nearest, made symmetric. */
function choosePairs(pos, width, nodes, nearest, small) {
  const all = nodes <= small || nearest >= nodes, far = new Float32Array(nodes * nodes);
  for (let i = 0; i < nodes; i++) {
    for (let j = 0; j < i; j++) {
      let square = 0;
      for (let axis = 0; axis < width; axis++) {
        const away = Math.fround(pos[j * width + axis] - pos[i * width + axis]);
        square = Math.fround(square + Math.fround(away * away));
      }
      far[i * nodes + j] = far[j * nodes + i] = Math.sqrt(square);
    }
  }
  const near = new Uint8Array(nodes * nodes), row = new Float32Array(Math.max(nodes - 1, 0));
  for (let i = 0; i < nodes; i++) {
    let reach = Infinity;
    if (!all) {
      for (let j = 0; j < nodes; j++) if (j !== i) row[j - (j > i)] = far[i * nodes + j];
      reach = row.sort()[nearest - 1] * TIE;
    }
    for (let j = 0; j < nodes; j++) if (j !== i && far[i * nodes + j] <= reach) near[i * nodes + j] = near[j * nodes + i] = 1;
  }
  const start = new Int32Array(nodes + 1);
  for (let i = 0; i < nodes; i++) {
    let count = 0;
    for (let j = 0; j < nodes; j++) count += near[i * nodes + j];
    start[i + 1] = start[i] + count;
  }
  const count = start[nodes], source = new Int32Array(count), target = new Int32Array(count), length = new Float32Array(count);
  for (let i = 0, pair = 0; i < nodes; i++) {
    for (let j = 0; j < nodes; j++) {
      if (!near[i * nodes + j]) continue;
      source[pair] = i;
      target[pair] = j;
      length[pair++] = far[i * nodes + j];
    }
  }
  // Sorted by target and then by source, the reversed pairs are in the order of the pairs.
  const back = new Int32Array(count), next = start.slice();
  for (let pair = 0; pair < count; pair++) back[next[target[pair]]++] = pair;
  return { count, start, source, target, back, length };
}

/** The unit of length at every node: its mean distance to the nearest few that do not coincide with it. */
function localUnits(pairs, nodes) {
  const unit = new Float32Array(nodes);
  for (let node = 0; node < nodes; node++) {
    const around = pairs.length.slice(pairs.start[node], pairs.start[node + 1]).filter((far) => far > 0).sort().slice(0, LOCAL);
    unit[node] = around.length ? around.reduce((sum, far) => Math.fround(sum + far), 0) / around.length : 1;
  }
  return unit;
}

class Engine {
  /**
   * @param wasm the bytes of engine.wasm
   * @param model { config, tensors: { name: [offset, ...shape] }, weights: base64 of float32 }
   */
  constructor(wasm, model) {
    this.config = model.config;
    this.memory = new Memory(wasm);
    this.call = this.memory.calls;
    this.layers = {};
    const raw = new Float32Array(bytesOf(model.weights).buffer);
    for (const [name, [offset, ...shape]] of Object.entries(model.tensors)) {
      const values = raw.subarray(offset, offset + shape.reduce((product, size) => product * size, 1));
      this.layers[name] = shape.length === 2 ? this.turned(values, ...shape) : this.kept(values);
    }
    this.base = this.memory.top;
  }

  /** A vector, filled up with zeros. */
  kept(values) {
    const at = this.memory.take(up(values.length));
    this.memory.floats(at, values.length).set(values);
    return { at, out: up(values.length) };
  }

  /** A matrix [out, in] as [in, out], filled up with zeros. */
  turned(values, out, into) {
    const wide = up(out), at = this.memory.take(wide * into), to = this.memory.floats(at, wide * into);
    for (let row = 0; row < out; row++) for (let k = 0; k < into; k++) to[k * wide + row] = values[row * into + k];
    return { at, into, out: wide, plain: out };
  }

  linear(name, x, y, rows, more = 0) {
    const { at, into, out } = this.layers[`${name}.weight`];
    this.call.linear(x, at, this.layers[`${name}.bias`]?.at ?? this.nothing, y, rows, into, out, more);
  }

  normal(name, x, y, rows, width) {
    this.call.normal(x, this.layers[`${name}.weight`].at, this.layers[`${name}.bias`].at, y, rows, width);
  }

  /** y += the two layers of `name` with a GELU between them, of the layer norm of x = y. */
  think(name, y, rows, width) {
    this.normal(`${name}.0`, y, this.wide, rows, width);
    this.linear(`${name}.1.0`, this.wide, this.wider, rows);
    this.call.gelu(this.wider, rows * this.layers[`${name}.1.0.weight`].out);
    this.linear(`${name}.1.2`, this.wider, y, rows, 1);
  }

  /**
   * The probability of every pair after every step.
   * @param pos [nodes, pos_channels]
   */
  run(pos, nodes, nearest = this.config.candidates) {
    const { memory, call, config } = this, { width, pair_width: wide, kernels, steps } = config;
    memory.top = this.base;
    const pairs = choosePairs(pos, config.pos_channels, nodes, nearest, config.sparse ? 0 : SMALL), { count } = pairs;
    const longest = pairs.start.reduce((most, begin, node) => Math.max(most, node ? begin - pairs.start[node - 1] : 0), 0);
    if (count * longest > MOST_THIRDS) throw new Error("too many points lie at one place");
    const mixed = wide + kernels, rows = Math.max(CHUNK, nodes), most = up(Math.max(width, mixed));
    const lists = ["start", "source", "target"].map((name) => {
      const at = memory.take(pairs[name].length + 1);
      memory.integers(at, pairs[name].length).set(pairs[name]);
      return at;
    });
    this.nothing = memory.take(8 * most);
    this.wide = memory.take(rows * most);
    this.wider = memory.take(rows * 4 * most);
    const [start, source, target] = lists, gate = memory.take(rows * up(kernels)), score = memory.take(count * 4 + 4);
    const [a, root, h, values, heard] = [count + 1, nodes, nodes * width, nodes * width, nodes * width].map((size) => memory.take(size));
    const [sources, targets] = [memory.take(nodes * 2 * wide), memory.take(nodes * 2 * wide)];
    const [ik, jk, weights] = [longest + 4, longest + 4, 4 * longest + 4].map((size) => memory.take(size));
    const e = memory.take(count * wide + 4), read = memory.take(count * 4 * wide + 4);
    memory.floats(this.nothing, 8 * most).fill(0);
    const chunks = [];
    for (let first = 0; first < count; first += CHUNK) chunks.push([first, Math.min(CHUNK, count - first)]);

    this.embed(pos, nodes, pairs, chunks, h, e);
    const chances = [], A = memory.floats(a, count), of = (name) => this.layers[name].at;
    A.fill(0);
    for (let step = 0; step < steps; step++) {
      const at = `blocks.${config.shared ? 0 : step}`;
      if (!config.feedback) A.fill(1); // every pair is an edge, as far as it can see
      this.listen(`${at}.listen`, { nodes, pairs, chunks, step, a, root, h, values, heard, gate, source, target, e });
      this.think(`${at}.think`, h, nodes, width);
      this.normal(`${at}.ends.norm`, h, this.wide, nodes, width);
      this.linear(`${at}.ends.source`, this.wide, sources, nodes);
      this.linear(`${at}.ends.target`, this.wide, targets, nodes);
      for (const [first, some] of chunks) {
        const own = e + 4 * first * wide;
        call.ends(sources, targets, a, of(`${at}.ends.structure.weight`), of(`${at}.ends.structure.bias`), source, target, this.wide, first, some, wide);
        call.gelu(this.wide, some * wide);
        this.linear(`${at}.ends.out`, this.wide, own, some, 1);
        if (!config.mixing) continue;
        this.normal(`${at}.mix.norm`, own, this.wide, some, wide);
        this.linear(`${at}.mix.read`, this.wide, read + 16 * first * wide, some);
      }
      for (const [first, some] of chunks) {
        const own = e + 4 * first * wide;
        if (config.mixing) {
          call.mix(read, start, source, target, ik, jk, weights, this.wide, first, some, wide);
          this.linear(`${at}.mix.out`, this.wide, own, some, 1);
        }
        this.think(`${at}.weigh`, own, some, wide);
        this.normal(`${at}.score.0`, own, this.wide, some, wide);
        this.linear(`${at}.score.1`, this.wide, score + 16 * first, some);
      }
      const scores = memory.floats(score, count * 4);
      for (let pair = 0; pair < count; pair++) {
        const both = Math.fround(scores[4 * pair] + scores[4 * pairs.back[pair]]) / 2;
        A[pair] = 1 / (1 + Math.exp(-both));
      }
      chances.push(A.slice());
    }
    return { ...pairs, chances };
  }

  /** The first states of nodes and pairs. */
  embed(pos, nodes, pairs, chunks, h, e) {
    const { memory, config } = this, { width, pair_width: wide, pos_channels: axes, directions, lengths } = config;
    memory.floats(this.wide, nodes).fill(1); // nodes without features
    this.linear("embed_node.0", this.wide, this.wider, nodes);
    this.call.gelu(this.wider, nodes * width);
    this.linear("embed_node.2", this.wider, h, nodes);
    const unit = localUnits(pairs, nodes), f = Math.fround, features = this.layers["embed_pair.0.weight"].into;
    for (const [first, some] of chunks) {
      const x = memory.floats(this.wide, some * features);
      let at = 0;
      for (let pair = first; pair < first + some; pair++) {
        const i = pairs.source[pair], j = pairs.target[pair], far = pairs.length[pair];
        const common = f(Math.sqrt(f(unit[i] * unit[j])));
        if (directions) {
          for (let axis = 0; axis < axes; axis++) {
            const offset = f(pos[j * axes + axis] - pos[i * axes + axis]);
            x[at + axis] = offset / common;
            x[at + axes + axis] = offset / (far > 0 ? far : 1);
          }
          at += 2 * axes;
        }
        x[at++] = far / common;
        x[at++] = Math.log(f(f(far / unit[i]) + f(1e-3)));
        x[at++] = Math.log(f(f(far / unit[j]) + f(1e-3)));
        if (lengths !== "local") {
          x[at++] = Math.log(f(far + f(1e-6)));
          for (const scale of SCALES) x[at++] = far / f(far + f(scale));
          if (lengths === "fine") for (const turn of [Math.sin, Math.cos]) for (const wave of WAVES) x[at++] = turn(far * f(2 * Math.PI / wave));
        }
      }
      this.linear("embed_pair.0", this.wide, this.wider, some);
      this.call.gelu(this.wider, some * this.layers["embed_pair.0.weight"].out);
      this.linear("embed_pair.2", this.wider, e + 4 * first * wide, some);
    }
  }

  /** The nodes listen to one another through the structure. */
  listen(name, { nodes, pairs, chunks, step, a, root, h, values, heard, gate, source, target, e }) {
    const { memory, call, config } = this, { width, pair_width: wide, kernels } = config;
    const A = memory.floats(a, pairs.count), roots = memory.floats(root, nodes), f = Math.fround;
    for (let node = 0; node < nodes; node++) {
      let degree = 0;
      for (let pair = pairs.start[node]; pair < pairs.start[node + 1]; pair++) degree = f(degree + A[pair]);
      roots[node] = 1 / Math.sqrt(f(1 + degree)); // every node also counts itself
    }
    this.normal(`${name}.norm`, h, this.wide, nodes, width);
    this.linear(`${name}.W`, this.wide, values, nodes);
    const own = memory.floats(values, nodes * width), sums = memory.floats(heard, nodes * width);
    for (let node = 0; node < nodes; node++) {
      const square = f(roots[node] * roots[node]);
      for (let k = node * width; k < (node + 1) * width; k++) sums[k] = square * own[k];
    }
    if (step || !config.feedback) { // at first A is 0, and nobody hears anybody
      for (const [first, some] of chunks) {
        this.normal(`${name}.pair_norm`, e + 4 * first * wide, this.wide, some, wide);
        this.linear(`${name}.gate`, this.wide, gate, some);
        call.hear(gate, a, root, values, source, target, heard, first, some, kernels, up(kernels), width);
      }
    }
    call.gelu(heard, nodes * width);
    this.linear(`${name}.U`, heard, h, nodes, 1);
  }
}
