/* A graph drawn on a canvas, flat or in 3-D. */

const EYE = 3.4; // distance of the eye from the centre of a 3-D graph, in radii
const TILT = 0.61, TURN = -0.35; // the initial view of a 3-D graph: from above, and a little from the side
const SLICES = 6; // of depth, the nearest drawn last
const SHADES = 4; // of strength
const CHUNK = 100; // lines in one path: longer paths are slow to draw
const TYPES = 12, WIDTHS = 6; // looks of types, and widths of lines by weight
const MANY = 3000; // wrong edges; if there are more, they are drawn without dashes and as thin as the others

class Drawing {
  /** @param canvas to fill, whatever its size */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.layers = { right: true, missing: true, extra: true, edges: true, nodes: true, faces: true, image: true, clusters: true, labels: false };
    this.graph = null;
    this.hit = null; // what is pointed at: {node} or {pair}
    this.frame = 0;
    this.readColours();
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.resize();
  }

  /** Read the colours from the style sheet; call it after a change of theme. */
  readColours() {
    const style = getComputedStyle(this.canvas);
    const read = (name) => style.getPropertyValue(`--${name}`).trim();
    this.colours = Object.fromEntries(
      ["ink", "right", "missing", "extra", "unlikely", "likely", "ground"].map((name) => [name, read(name)]));
    this.typeColours = read("types").split(" ");
    this.ramp = Array.from({ length: 8 }, (_, index) =>
      blend(this.colours.unlikely, this.colours.likely, index / 7));
    this.render();
  }

  show(graph, palette) {
    this.graph = graph;
    this.palette = palette;
    this.kinds = new Uint8Array(graph.pairs);
    this.strength = new Float32Array(graph.pairs);
    this.seen = new Float32Array(graph.nodes * 2);
    this.depth = new Float32Array(graph.nodes).fill(1);
    this.picture = graph.image ? paint(graph, (node) => graph.image.subarray(3 * node, 3 * node + 3)) : null;
    this.regions = graph.image && graph.clusters ? paint(graph, (node) => hue(graph.clusters[node])) : null;
    this.grey = this.regions ? paint(graph, (node) => grey(graph.image.subarray(3 * node, 3 * node + 3))) : null;
    this.measure();
    this.hit = null;
    this.stale = true; // WebGL has other looks, or none yet
    this.reset();
  }

  /** Find the centre of the points and how far they reach. */
  measure() {
    const { pos, dimensions, nodes } = this.graph;
    const low = new Array(dimensions).fill(Infinity), high = new Array(dimensions).fill(-Infinity);
    for (let node = 0; node < nodes; node++) {
      for (let axis = 0; axis < dimensions; axis++) {
        low[axis] = Math.min(low[axis], pos[node * dimensions + axis]);
        high[axis] = Math.max(high[axis], pos[node * dimensions + axis]);
      }
    }
    if (this.picture) { // pixels reach half a pixel beyond their centres
      for (let axis = 0; axis < 2; axis++) { low[axis] -= 0.5; high[axis] += 0.5; }
    }
    this.low = low;
    this.centre = low.map((value, axis) => (value + high[axis]) / 2);
    this.extent = low.map((value, axis) => high[axis] - value);
    let radius = 0;
    for (let node = 0; node < nodes; node++) {
      let square = 0;
      for (let axis = 0; axis < dimensions; axis++) square += (pos[node * dimensions + axis] - this.centre[axis]) ** 2;
      radius = Math.max(radius, square);
    }
    this.radius = Math.sqrt(radius) || 1;
    this.expect();
  }

  /** How many edges to expect: many are drawn thinner, dense ones paler. */
  expect() {
    const { graph } = this, { nodes } = graph;
    this.edges = graph.truth ? graph.trueEdges : graph.count(graph.steps - 1, graph.own).chosen;
    this.ease = Math.min(Math.max((5.5 * nodes) / Math.max(this.edges, 1), 0.5), 0.9);
  }

  reset() {
    this.scale = 1;
    this.shift = [0, 0];
    const [s, c] = [Math.sin(TILT), Math.cos(TILT)], [t, d] = [Math.sin(TURN), Math.cos(TURN)];
    this.turned = multiply([1, 0, 0, 0, s, c, 0, -c, s], [d, -t, 0, t, d, 0, 0, 0, 1]);
    if (this.graph?.dimensions === 3) this.fill();
    this.fitted = this.scale;
    this.touched = false;
    this.render(false);
  }

  resize() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.ratio = ratio;
    if (!this.graph) return;
    if (!this.touched) this.reset();
    this.draw(); // at once: setting the size has cleared the canvas
  }

  /** Draw at the next frame; several calls draw once. `changed`: more than the view. */
  render(changed = true) {
    this.stale ||= changed;
    this.moves = true;
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  /** Let a 3-D graph fill the canvas in its current rotation; in others it may reach a little beyond. */
  fill() {
    this.project();
    const low = [Infinity, Infinity], high = [-Infinity, -Infinity];
    this.seen.forEach((value, index) => {
      const reach = this.reach(index >> 1);
      low[index & 1] = Math.min(low[index & 1], value - reach);
      high[index & 1] = Math.max(high[index & 1], value + reach);
    });
    const room = Math.min(48, this.width / 12), wide = (high[0] - low[0]) || 1, tall = (high[1] - low[1]) || 1;
    this.scale = Math.max(Math.min((this.width - 2 * room) / wide, (this.height - 2 * room) / tall, 1.7), 0.5);
    this.shift = [this.width / 2 - (low[0] + high[0]) / 2, this.height / 2 - (low[1] + high[1]) / 2]
      .map((value) => value * this.scale);
  }

  /** How far a node is drawn beyond its place, in pixels, if that is much. */
  reach() { return 0; }

  /** Pixels per unit of length at scale 1. */
  unit() {
    const room = Math.min(40, this.width / 12);
    const [width, height] = [Math.max(this.width - 2 * room, 20), Math.max(this.height - 2 * room, 20)];
    if (this.graph.dimensions === 3) return (Math.min(width, height) / 2 / this.radius) * 0.96;
    return Math.min(width / (this.extent[0] || 1e-9), height / (this.extent[1] || 1e-9), 1e9);
  }

  /** Compute where every node is drawn, in pixels, and how near it is, from 0 to 1. */
  project() {
    const { pos, nodes, dimensions } = this.graph, { seen, depth, centre } = this;
    const unit = this.unit() * this.scale;
    const middle = [this.width / 2 + this.shift[0], this.height / 2 + this.shift[1]];
    if (dimensions === 2) {
      const down = this.picture ? unit : -unit; // the rows of an image are counted downwards
      for (let node = 0; node < nodes; node++) {
        seen[2 * node] = middle[0] + (pos[2 * node] - centre[0]) * unit;
        seen[2 * node + 1] = middle[1] + (pos[2 * node + 1] - centre[1]) * down;
      }
      return;
    }
    const r = this.turned, eye = EYE * this.radius;
    for (let node = 0; node < nodes; node++) {
      const x = pos[3 * node] - centre[0], y = pos[3 * node + 1] - centre[1], z = pos[3 * node + 2] - centre[2];
      const near = r[6] * x + r[7] * y + r[8] * z;
      const size = (unit * eye) / (eye - near);
      seen[2 * node] = middle[0] + (r[0] * x + r[1] * y + r[2] * z) * size;
      seen[2 * node + 1] = middle[1] - (r[3] * x + r[4] * y + r[5] * z) * size;
      depth[node] = (near / this.radius + 1) / 2;
    }
  }

  draw() {
    const { context, graph } = this;
    if (!graph || !this.width) return;
    this.project();
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.lineCap = graph.pairs > MANY ? "butt" : "round";
    this.onImage = Boolean(this.picture && this.layers.image);
    const regions = this.regions && this.layers.clusters;
    if (this.onImage) this.drawImage(regions ? this.grey : this.picture); // its colours would mix with the regions'
    if (regions) this.drawImage(this.regions, this.onImage ? 0.6 : 1);
    const painter = this.large() ? Painter.get() : null;
    if (painter) {
      painter.draw(this);
      if (this.layers.nodes) this.ringWrong();
    } else {
      this.drawEdges();
      if (this.layers.nodes) this.drawNodes();
    }
    if (this.hit) this.drawHit();
    if (this.layers.labels) this.drawLabels();
  }

  /** Whether WebGL should draw it; over an image, the canvas does. */
  large() {
    return (this.graph.pairs > LARGE || this.graph.faces !== null) && !this.picture;
  }

  drawImage(picture, strength = 1) {
    const unit = this.unit() * this.scale, { context } = this;
    context.globalAlpha = strength;
    context.imageSmoothingEnabled = false;
    context.drawImage(
      picture,
      this.width / 2 + this.shift[0] - (this.extent[0] / 2) * unit,
      this.height / 2 + this.shift[1] - (this.extent[1] / 2) * unit,
      this.extent[0] * unit,
      this.extent[1] * unit);
    context.globalAlpha = 1;
  }

  shown(kind, type) {
    const { layers } = this;
    if (layers[`type${type}`] === false) return false;
    return kind === RIGHT ? layers.right : kind === OTHER ? layers.other ?? true : kind === MISSING ? layers.missing : kind === EXTRA ? layers.extra
      : kind !== NOT_SHOWN && layers.edges;
  }

  lineWidth() {
    if (this.picture) return Math.min(Math.max(this.unit() * this.scale * 0.09, 1), 4);
    // At most 1 for 10,000 edges: a browser without a graphics card draws such lines four times as fast.
    return Math.min(Math.max(2.3 - 0.49 * Math.log10(Math.max(this.edges, 20) / 20), 0.9), 2) * Math.min(Math.max(this.scale / this.fitted, 0.5) ** 0.35, 2.5);
  }

  /** How many looks there are, and a function that says which a pair has, or -1 if it is hidden: by kind, strength, type and weight. */
  looks() {
    const { graph, kinds, strength } = this, ramped = this.ramp.length;
    const types = graph.types ? TYPES : 1, widths = graph.weights ? WIDTHS : 1;
    this.wrong = 0;
    const look = (pair) => {
      const kind = kinds[pair], type = graph.types ? graph.types[pair] : -1;
      if (!this.shown(kind, type)) return -1;
      if (kind === MISSING || kind === EXTRA) this.wrong++;
      const shades = kind === LIKELY ? ramped : SHADES, shade = Math.min(Math.floor(strength[pair] * shades), shades - 1);
      const wide = graph.weights ? Math.min(Math.floor((graph.weights[pair] / graph.heaviest) * WIDTHS), WIDTHS - 1) : 0;
      return ((kind * ramped + shade) * types + Math.max(type, 0) % types) * widths + wide;
    };
    const read = (look) => {
      const shaded = Math.floor(look / widths / types), type = graph.types ? Math.floor(look / widths) % types : -1;
      return { kind: Math.floor(shaded / ramped), shade: shaded % ramped, type, wide: graph.weights ? 0.5 + (2.2 * ((look % widths) + 0.5)) / WIDTHS : 1 };
    };
    return { count: 7 * ramped * types * widths, look, read };
  }

  /** The look of every pair for WebGL: colour, opacity, width, order, whether it is dashed and whether it is directed. */
  edgeLooks() {
    const { graph } = this, solid = graph.dimensions === 3, { count, look, read } = this.looks();
    const which = new Int32Array(graph.pairs), shown = [], made = new Uint32Array(2 * count);
    for (let pair = 0; pair < graph.pairs; pair++) if ((which[pair] = look(pair)) >= 0) shown.push(pair);
    this.order = shown;
    const few = this.wrong <= MANY, bytes = new Uint8Array(made.buffer);
    for (let number = 0; number < count; number++) {
      const { kind, shade, type, wide } = read(number), { colour, strong, wrong } = this.look(kind, shade, type);
      const rank = kind === LIKELY ? shade : kind, width = Math.min(ONE * wide * (wrong && few ? 1.6 : 1), 255);
      // Lines that hide one another do not add up, so those of a solid are stronger.
      bytes.set([...channels(kind === OTHER ? this.colours.ink : colour), 255 * (solid ? Math.sqrt(strong) : strong), width, rank, kind === MISSING && few, graph.directed], 8 * number);
    }
    const all = new Uint32Array(2 * graph.pairs);
    for (const pair of shown) {
      all[2 * pair] = made[2 * which[pair]];
      all[2 * pair + 1] = made[2 * which[pair] + 1];
    }
    return all;
  }

  /** The colour of every node for WebGL; hidden ones are transparent. */
  nodeLooks() {
    const { graph } = this, { member, colour, shown } = this.groups(), made = new Map(), all = new Uint32Array(graph.nodes);
    for (let node = 0; node < graph.nodes; node++) {
      const group = member ? member[node] : 0;
      if (!made.has(group)) made.set(group, new Uint32Array(Uint8Array.from([...channels(colour(group)), shown(group) ? 255 : 0]).buffer)[0]);
      all[node] = made.get(group);
    }
    return all;
  }

  /** Draw edges in buckets by depth and look, so that each style is set once. */
  drawEdges() {
    const { graph, depth } = this, solid = graph.dimensions === 3, { count: looks, look, read } = this.looks();
    const buckets = (solid ? SLICES : 1) * looks;
    const starts = new Int32Array(buckets + 1), place = (this.place ??= new Uint16Array(0)).length === graph.pairs
      ? this.place : (this.place = new Uint16Array(graph.pairs));
    for (let pair = 0; pair < graph.pairs; pair++) {
      const own = look(pair);
      if (own < 0) { place[pair] = 65535; continue; }
      const slice = solid
        ? Math.min(Math.floor(((depth[graph.source[pair]] + depth[graph.target[pair]]) / 2) * SLICES), SLICES - 1) : 0;
      place[pair] = Math.max(slice, 0) * looks + own;
      starts[place[pair] + 1]++;
    }
    for (let bucket = 0; bucket < buckets; bucket++) starts[bucket + 1] += starts[bucket];
    const order = new Int32Array(starts[buckets]), next = starts.slice();
    for (let pair = 0; pair < graph.pairs; pair++) if (place[pair] !== 65535) order[next[place[pair]]++] = pair;
    this.order = order;
    if (this.onImage) { // a dark rim below, so that edges stand out on any colour
      this.context.strokeStyle = "#1f2933";
      this.context.globalAlpha = 1;
      this.context.lineWidth = this.lineWidth() * 2.1;
      this.stroke(order, 0, order.length);
    }
    for (let bucket = 0; bucket < buckets; bucket++) {
      if (starts[bucket] === starts[bucket + 1]) continue;
      const { kind, shade, type, wide } = read(bucket % looks), near = solid ? (Math.floor(bucket / looks) + 0.5) / SLICES : 1;
      const ends = [starts[bucket], starts[bucket + 1]];
      if (kind === OTHER) this.rim(order, ...ends);
      this.style(kind, shade, near, type, wide);
      this.stroke(order, ...ends);
      if (graph.directed) this.arrows(order, ...ends);
    }
    this.context.setLineDash([]);
    this.context.globalAlpha = 1;
  }

  /** A dashed rim around edges of another type than predicted. */
  rim(order, start, end) {
    const { context, colours } = this, width = this.lineWidth();
    context.globalAlpha = 1;
    for (const [colour, wide, dash] of [[colours.ink, 4, [3 * width, 2.2 * width]], [colours.ground, 2.5, []]]) {
      context.strokeStyle = colour;
      context.lineWidth = wide * width;
      context.lineCap = "butt";
      context.setLineDash(dash);
      this.stroke(order, start, end);
    }
  }

  /** Colour and strength of the edges of a kind; `coloured`: by their type. */
  look(kind, shade, type) {
    const { colours } = this, wrong = kind === MISSING || kind === EXTRA, coloured = type >= 0 && !wrong && !this.onImage;
    const strong = kind === RIGHT ? (coloured ? 0.7 : 0.55) + ((coloured ? 0.3 : 0.45) * shade) / (SHADES - 1)
      : coloured && kind === LIKELY ? 0.45 + (0.55 * shade) / (this.ramp.length - 1) : 1;
    const colour = coloured ? this.typeColours[type % this.typeColours.length] : kind === LIKELY ? this.ramp[shade]
      : kind === MISSING ? colours.missing : kind === EXTRA ? colours.extra
      : this.onImage ? "#ffffff" : colours.right;
    return { wrong, coloured, colour, strong: strong * (wrong ? 1 : coloured ? Math.max(this.ease, 0.8) : this.ease) };
  }

  style(kind, shade, near, type = -1, wide = 1) {
    const { context } = this, width = this.lineWidth() * wide, few = this.wrong <= MANY;
    const { wrong, coloured, colour, strong } = this.look(kind, shade, type);
    const faded = wrong ? 0.55 + 0.45 * near : 0.3 + 0.7 * near; // wrong edges at the back stay visible
    context.globalAlpha = this.onImage ? 1 : strong * faded;
    context.lineWidth = width * (wrong && few ? 1.6 : 1) * (0.7 + 0.3 * near);
    context.strokeStyle = colour;
    const dashes = coloured ? this.graph.dashes[type % this.graph.dashes.length].map((part) => part * width * 1.4) : [];
    context.lineCap = dashes.length || this.graph.pairs > MANY ? "butt" : "round";
    context.setLineDash(kind === MISSING && !this.onImage && few ? [3.5 * width, 3 * width] : dashes);
  }

  /** A triangle on each edge that points to its target. */
  arrows(order, start, end) {
    const { context, seen } = this, { source, target } = this.graph, size = 6 + 3 * this.lineWidth();
    context.fillStyle = context.strokeStyle;
    context.globalAlpha = Math.min(1, context.globalAlpha * 1.3);
    context.beginPath();
    for (let index = start; index < end; index++) {
      const a = 2 * source[order[index]], b = 2 * target[order[index]];
      const dx = seen[b] - seen[a], dy = seen[b + 1] - seen[a + 1], length = Math.hypot(dx, dy) || 1;
      const long = Math.min(size, 0.45 * length), [ux, uy] = [(dx / length) * long, (dy / length) * long];
      const x = seen[a] + 0.68 * dx + ux / 2, y = seen[a + 1] + 0.68 * dy + uy / 2;
      context.moveTo(x, y);
      context.lineTo(x - ux - 0.42 * uy, y - uy + 0.42 * ux);
      context.lineTo(x - ux + 0.42 * uy, y - uy - 0.42 * ux);
      context.closePath();
    }
    context.fill();
  }

  stroke(order, start, end) {
    const { context, seen } = this, { source, target } = this.graph;
    for (let begin = start; begin < end; begin += CHUNK) {
      context.beginPath();
      for (let index = begin; index < Math.min(begin + CHUNK, end); index++) {
        const a = 2 * source[order[index]], b = 2 * target[order[index]];
        context.moveTo(seen[a], seen[a + 1]);
        context.lineTo(seen[b], seen[b + 1]);
      }
      context.stroke();
    }
  }

  nodeSize() {
    const room = Math.sqrt((this.width * this.height) / this.graph.nodes);
    return Math.min(Math.max(room * 0.075, 1.1), 5.5) * Math.min(Math.max(this.scale / this.fitted, 0.5) ** 0.45, 3);
  }

  /** By what the nodes are coloured: which group each is in, how many there are, and the colour of each. */
  groups() {
    const { graph, colours } = this, byCluster = graph.clusters && this.layers.clusters, typed = !byCluster && graph.nodeTypes !== null;
    const member = byCluster ? graph.clusters : graph.nodeTypes ?? graph.groups;
    const colour = (group) => (!member ? colours.ink : byCluster ? `rgb(${hue(group).join(" ")})` : this.palette[group % this.palette.length]);
    const count = !member ? 1 : byCluster || typed ? member.reduce((most, own) => Math.max(most, own), 0) + 1 : this.palette.length;
    return { member, count, typed, colour, shown: (group) => !typed || this.layers[`node${group}`] !== false };
  }

  drawNodes() {
    const { context, graph, seen, depth, colours } = this, size = this.nodeSize(), solid = graph.dimensions === 3;
    const { member, count, typed, colour, shown } = this.groups(), rim = !solid && size > 2.2;
    for (let group = 0; group < count; group++) {
      if (!shown(group)) continue;
      context.fillStyle = colour(group);
      context.strokeStyle = colours.ground;
      context.lineWidth = Math.min(size * 0.45, 1.6);
      for (let slice = 0; slice < (solid ? SLICES : 1); slice++) {
        const near = solid ? (slice + 0.5) / SLICES : 1, radius = size * (solid ? 0.45 + 0.4 * near : 1);
        context.globalAlpha = solid ? 0.25 + 0.75 * near : 1;
        context.beginPath();
        for (let node = 0; node < graph.nodes; node++) {
          if (member && member[node] !== group) continue;
          if (solid && Math.min(Math.max(Math.floor(depth[node] * SLICES), 0), SLICES - 1) !== slice) continue;
          const x = seen[2 * node], y = seen[2 * node + 1];
          if (x < -9 || y < -9 || x > this.width + 9 || y > this.height + 9) continue;
          if (typed && group % 4) {
            polygon(context, x, y, radius * 1.25, group % 4);
          } else if (radius < 1.5) {
            context.rect(x - radius, y - radius, 2 * radius, 2 * radius);
          } else {
            context.moveTo(x + radius, y);
            context.arc(x, y, radius, 0, 7);
          }
        }
        if (rim) context.stroke();
        context.fill();
      }
    }
    context.globalAlpha = 1;
    this.ringWrong();
  }

  /** Ring the nodes of another type than predicted. */
  ringWrong() {
    const { context, graph, seen } = this;
    if (!graph.predicted || !graph.nodeTypes || !graph.trueNodeTypes || (graph.clusters && this.layers.clusters)) return;
    context.strokeStyle = this.colours.missing;
    context.lineWidth = 2;
    for (let node = 0; node < graph.nodes; node++) {
      if (graph.nodeTypes[node] === graph.trueNodeTypes[node]) continue;
      context.beginPath();
      context.arc(seen[2 * node], seen[2 * node + 1], this.nodeSize() + 3.5, 0, 7);
      context.stroke();
    }
  }

  drawHit() {
    const { context, graph, seen, hit, colours } = this;
    context.strokeStyle = context.fillStyle = colours.ink;
    const ring = (node, grow) => {
      context.beginPath();
      context.arc(seen[2 * node], seen[2 * node + 1], this.nodeSize() + grow, 0, 7);
      context.lineWidth = 4;
      context.strokeStyle = colours.ground;
      context.stroke();
      context.lineWidth = 2;
      context.strokeStyle = colours.ink;
      context.stroke();
    };
    if (hit.node !== undefined) { ring(hit.node, 4); return; }
    const ends = [graph.source[hit.pair], graph.target[hit.pair]], kind = this.kinds[hit.pair];
    const own = kind === MISSING ? colours.missing : kind === EXTRA ? colours.extra : colours.right;
    for (const [width, colour] of [[this.lineWidth() + 8, colours.ground], [this.lineWidth() + 3, own]]) {
      context.lineWidth = width;
      context.strokeStyle = colour;
      context.beginPath();
      context.moveTo(seen[2 * ends[0]], seen[2 * ends[0] + 1]);
      context.lineTo(seen[2 * ends[1]], seen[2 * ends[1] + 1]);
      context.stroke();
    }
    ends.forEach((node) => ring(node, 2));
  }

  /** Draw labels where there is room, nearer nodes first. */
  drawLabels() {
    const { context, graph, seen, depth, colours } = this, size = this.nodeSize();
    context.font = "500 11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.lineJoin = "round";
    const order = Uint32Array.from({ length: graph.nodes }, (_, node) => node).sort((a, b) => depth[b] - depth[a]);
    const taken = new Set();
    for (const node of order) {
      const x = seen[2 * node] + size + 4, y = seen[2 * node + 1];
      if (x < 0 || y < 0 || x > this.width || y > this.height) continue;
      const text = shorten(graph.beside(node), 24), cells = [];
      for (let left = Math.floor(x / 12); left <= (x + text.length * 6.3) / 12; left++) {
        for (const up of [-6, 6]) cells.push(left * 100000 + Math.floor((y + up) / 12));
      }
      if (cells.some((cell) => taken.has(cell))) continue;
      cells.forEach((cell) => taken.add(cell));
      context.lineWidth = 3.5;
      context.strokeStyle = colours.ground;
      context.strokeText(text, x, y);
      context.fillStyle = colours.ink;
      context.fillText(text, x, y);
    }
  }
}

/** Add a square, a triangle or a diamond to the path. */
function polygon(context, x, y, radius, shape) {
  const corners = shape === 2 ? 3 : 4, turn = shape === 1 ? Math.PI / 4 : -Math.PI / 2;
  for (let corner = 0; corner < corners; corner++) {
    const angle = turn + (2 * Math.PI * corner) / corners;
    context[corner ? "lineTo" : "moveTo"](x + radius * Math.cos(angle), y + radius * Math.sin(angle));
  }
  context.closePath();
}

/** Let a swatch look like the edges, or the nodes, of a type. */
function dressSwatch(swatch, drawing, type, ofNodes) {
  if (ofNodes) {
    swatch.className = `swatch nodes shape${type % 4}`;
    swatch.style.background = drawing.palette[type % drawing.palette.length];
    return;
  }
  const { dashes } = drawing.graph, colour = drawing.typeColours[type % drawing.typeColours.length];
  let at = 0;
  const stops = dashes[type % dashes.length].map((part, index) =>
    `${index % 2 ? "transparent" : colour} ${at}px ${(at += 3 * part)}px`);
  swatch.style.background = stops.length ? `repeating-linear-gradient(90deg, ${stops.join(", ")})` : colour;
}

/** The product of two 3 × 3 matrices, row by row. */
function multiply(a, b) {
  return a.map((_, index) => {
    const row = 3 * Math.floor(index / 3), column = index % 3;
    return a[row] * b[column] + a[row + 1] * b[column + 3] + a[row + 2] * b[column + 6];
  });
}

/** An image whose pixels are the nodes, in the colours [red, green, blue] that `colour` gives them. */
function paint(graph, colour) {
  let [left, top, right, bottom] = [Infinity, Infinity, 0, 0];
  for (let node = 0; node < graph.nodes; node++) {
    [left, right] = [Math.min(left, graph.pos[2 * node]), Math.max(right, graph.pos[2 * node])];
    [top, bottom] = [Math.min(top, graph.pos[2 * node + 1]), Math.max(bottom, graph.pos[2 * node + 1])];
  }
  const canvas = document.createElement("canvas");
  canvas.width = right - left + 1;
  canvas.height = bottom - top + 1;
  const context = canvas.getContext("2d"), pixels = context.createImageData(canvas.width, canvas.height);
  for (let node = 0; node < graph.nodes; node++) {
    const at = 4 * ((graph.pos[2 * node + 1] - top) * canvas.width + graph.pos[2 * node] - left);
    pixels.data.set([...colour(node), 255], at);
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

/** How light a colour is, as a colour. */
function grey([red, green, blue]) {
  return new Array(3).fill(Math.round(0.3 * red + 0.59 * green + 0.11 * blue));
}

/** A colour for every cluster, as [red, green, blue]: near numbers get distant hues. */
function hue(number) {
  const turn = (number * 0.618034) % 1, light = [150, 105, 190][Math.floor(number / 5) % 3];
  return [0, 1 / 3, 2 / 3].map((offset) => Math.round(light + 62 * Math.cos(2 * Math.PI * (turn + offset))));
}

/** Red, green and blue of a colour, #rrggbb or rgb(r g b); black where there is none yet: a canvas that is not on the page. */
function channels(colour) {
  return colour.startsWith("#") ? [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)) : (colour.match(/\d+/g) ?? [0, 0, 0]).map(Number);
}

/** A colour between two. */
function blend(from, to, part) {
  const other = channels(to);
  return `rgb(${channels(from).map((value, index) => Math.round(value * (1 - part) + other[index] * part)).join(" ")})`;
}

function shorten(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
