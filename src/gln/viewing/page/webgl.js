/* Large graphs, drawn with WebGL: their edges and nodes are handed over once, and rotating them moves no number here. */

const LARGE = 20_000; // pairs; smaller graphs are drawn by the canvas, whose lines can have any dashes and arrows
const ONE = 32; // the width of a usual line in what is handed over
const SOON = 40, LEAST = 3000; // milliseconds of a frame while it moves: a slow browser then draws some of the edges, at least so many
/** A number coprime to `count`: steps of so many visit everything in an order of which any beginning is a fair sample. */
const leap = (count) => (count % 7919 ? 7919 : 1);
const CORNERS = [0, 1, 2, 1, 3, 2]; // of a line, as two triangles

/** What both kinds of shapes share: where a node is drawn, in pixels, and how near it is, from 0 to 1. */
const PLACES = `#version 300 es
precision highp float;
uniform mat3 turned;
uniform vec2 size, middle;
uniform float unit, eye, radius, ratio, thick;
uniform bool solid;
vec3 place(vec3 node) {
  vec3 seen = turned * node;
  float grown = solid ? eye / (eye - seen.z) : 1.0;
  return vec3(middle + vec2(seen.x, -seen.y) * unit * grown, solid ? (seen.z / radius + 1.0) / 2.0 : 1.0);
}
vec4 put(vec2 pixel, float near, float rank) {
  return vec4(vec2(2, -2) * pixel / size + vec2(-1, 1), 0.9 - 1.7 * near - 0.004 * rank, 1);
}
`;

const LINES = [`${PLACES}
in vec3 source, target;
in vec4 colour, shape; // shape: width, rank, whether it is dashed, whether it is directed
out vec4 painted;
out vec2 at; // across and along the line, in pixels
out float wide, dash;
void main() {
  vec3 a = place(source), b = place(target);
  float end = float((gl_VertexID >> 1) & 1), side = float(gl_VertexID & 1) * 2.0 - 1.0, near = (a.z + b.z) / 2.0;
  vec2 way = b.xy - a.xy;
  float far = max(length(way), 1e-6);
  wide = thick * shape.x * ${(255 / ONE).toFixed(4)} * (0.7 + 0.3 * near);
  if (shape.w > 0.0) wide *= mix(1.8, 0.2, end); // towards its target
  dash = shape.z > 0.0 ? 3.2 * thick : 0.0;
  bool wrong = shape.y * 255.0 > 1.5 && shape.y * 255.0 < 3.5;
  float faded = solid ? (wrong ? 0.55 + 0.45 * near : 0.3 + 0.7 * near) : 1.0;
  painted = vec4(colour.rgb, colour.a * faded * min(wide * ratio, 1.0));
  wide = max(wide, 1.0 / ratio);
  float reach = wide / 2.0 + 0.5 / ratio;
  at = vec2(side * reach, end * far);
  vec2 pixel = (end > 0.5 ? b.xy : a.xy) + vec2(-way.y, way.x) / far * side * reach;
  gl_Position = put(pixel, end > 0.5 ? b.z : a.z, shape.y * 255.0);
}`, `#version 300 es
precision highp float;
uniform float ratio;
uniform bool solid;
uniform vec3 ground;
in vec4 painted;
in vec2 at;
in float wide, dash;
out vec4 pixel;
void main() {
  float cover = clamp((wide / 2.0 - abs(at.x)) * ratio + 0.5, 0.0, 1.0);
  if (cover < 0.05 || (dash > 0.0 && fract(at.y / dash / 2.0) > 0.55)) discard;
  // What is solid hides what lies behind it; in a flat graph, lines shine through one another.
  pixel = solid ? vec4(mix(ground, painted.rgb, painted.a), 1) * cover : vec4(painted.rgb, 1) * painted.a * cover;
}`];

const DISCS = [`${PLACES}
in vec3 node;
in vec4 colour;
out vec4 painted;
out float across;
void main() {
  vec3 seen = place(node);
  across = thick * (solid ? 0.45 + 0.4 * seen.z : 1.0);
  painted = vec4(colour.rgb, solid ? 0.25 + 0.75 * seen.z : 1.0);
  gl_PointSize = 2.0 * ratio * across + 2.0 * ratio;
  gl_Position = colour.a > 0.0 ? put(seen.xy, seen.z, 8.0) : vec4(2, 2, 2, 1);
}`, `#version 300 es
precision highp float;
uniform float ratio;
uniform bool solid;
uniform vec3 ground;
in vec4 painted;
in float across;
out vec4 pixel;
void main() {
  float far = length(gl_PointCoord - 0.5) * 2.0 * (across + 1.0), rim = !solid && across > 2.2 ? 0.7 : 0.0;
  float cover = clamp((across + rim - far) * ratio + 0.5, 0.0, 1.0);
  if (cover < 0.05) discard;
  float inner = clamp((across - far) * ratio + 0.5, 0.0, 1.0);
  pixel = vec4(mix(ground, painted.rgb, solid ? painted.a : rim > 0.0 ? inner : 1.0), 1) * cover;
}`];

const FACES = [`${PLACES}
in vec3 node;
out vec3 seen;
void main() {
  seen = turned * node;
  vec3 at = place(node);
  gl_Position = put(at.xy, at.z, -1.0);
}`, `#version 300 es
precision highp float;
uniform vec3 tint;
in vec3 seen;
out vec4 pixel;
void main() {
  vec3 across = cross(dFdx(seen), dFdy(seen));
  float lit = abs(dot(across, vec3(-0.36, 0.48, 0.8))) / max(length(across), 1e-12);
  pixel = vec4(tint * (0.5 + 0.5 * lit), 1);
}`];

/** Draws graphs onto a canvas of its own, which drawings copy; a page has one. */
class Painter {
  static one; // null if this browser has no WebGL, or has lost it

  static get() {
    if (Painter.one === undefined) {
      try { Painter.one = new Painter(); } catch { Painter.one = null; }
    }
    return Painter.one;
  }

  constructor() {
    this.canvas = document.createElement("canvas");
    Object.assign(this, { most: Infinity, some: 0, drawn: -Infinity });
    this.canvas.addEventListener("webglcontextlost", () => { Painter.one = null; });
    const gl = (this.gl = this.canvas.getContext("webgl2", { antialias: false, powerPreference: "high-performance" }));
    this.lines = this.program(...LINES);
    this.discs = this.program(...DISCS);
    this.faces = this.program(...FACES);
    gl.enable(gl.DEPTH_TEST);
    gl.depthFunc(gl.LEQUAL);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  program(...sources) {
    const { gl } = this, made = gl.createProgram();
    [gl.VERTEX_SHADER, gl.FRAGMENT_SHADER].forEach((kind, index) => {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, sources[index]);
      gl.compileShader(shader);
      gl.attachShader(made, shader);
    });
    gl.linkProgram(made);
    if (!gl.getProgramParameter(made, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(made));
    const uniforms = new Map();
    for (let index = 0; index < gl.getProgramParameter(made, gl.ACTIVE_UNIFORMS); index++) {
      const { name } = gl.getActiveUniform(made, index);
      uniforms.set(name, gl.getUniformLocation(made, name));
    }
    return { made, uniforms };
  }

  /** Hand over where the nodes of a drawing are. */
  take(drawing) {
    const { gl } = this, { graph, centre } = drawing, { nodes, pairs, dimensions, pos, source, target } = graph;
    drawing.handed?.buffers.forEach((buffer) => gl.deleteBuffer(buffer));
    const places = new Float32Array(3 * nodes), ends = new Float32Array(24 * pairs); // both ends of a line at each corner
    for (let node = 0; node < nodes; node++) {
      for (let axis = 0; axis < dimensions; axis++) places[3 * node + axis] = pos[dimensions * node + axis] - centre[axis];
    }
    const order = Uint32Array.from({ length: nodes }, (_, index) => (index * leap(nodes)) % nodes);
    for (let corner = 0; corner < 4 * pairs; corner++) {
      const pair = corner >> 2;
      for (let axis = 0; axis < 3; axis++) {
        ends[6 * corner + axis] = places[3 * source[pair] + axis];
        ends[6 * corner + 3 + axis] = places[3 * target[pair] + axis];
      }
    }
    const mixed = Float32Array.from({ length: 3 * nodes }, (_, at) => places[3 * order[Math.floor(at / 3)] + (at % 3)]);
    const buffers = [ends, null, mixed, null, null, places, null].map((values) => {
      const buffer = gl.createBuffer();
      if (values) this.fill(gl.ARRAY_BUFFER, buffer, values);
      return buffer;
    });
    const [lines, looks, discs, colours, , corners, triangles] = buffers;
    drawing.handed = { graph, buffers, order, shown: 0,
      lines: this.layout(this.lines, [["source", lines, 3, 24, 0], ["target", lines, 3, 24, 12], ["colour", looks, 4, 8, 0], ["shape", looks, 4, 8, 4]]),
      discs: this.layout(this.discs, [["node", discs, 3, 12, 0], ["colour", colours, 4, 4, 0]]),
      faces: this.layout(this.faces, [["node", corners, 3, 12, 0]]) };
    if (graph.faces) this.fill(gl.ELEMENT_ARRAY_BUFFER, triangles, Uint32Array.from(graph.faces));
    drawing.stale = true;
  }

  fill(kind, buffer, values) {
    this.gl.bindBuffer(kind, buffer);
    this.gl.bufferData(kind, values, this.gl.DYNAMIC_DRAW);
  }

  layout({ made }, attributes) {
    const { gl } = this, layout = gl.createVertexArray();
    gl.bindVertexArray(layout);
    for (const [name, buffer, count, stride, offset] of attributes) {
      const at = gl.getAttribLocation(made, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.enableVertexAttribArray(at);
      gl.vertexAttribPointer(at, count, count === 3 ? gl.FLOAT : gl.UNSIGNED_BYTE, count === 4, stride, offset);
    }
    return layout;
  }

  /** Hand over how the edges and nodes of a drawing look, and which edges are shown. */
  dress(drawing) {
    const { gl } = this, { buffers, lines } = drawing.handed, looks = drawing.edgeLooks(), { order } = drawing, colours = drawing.nodeLooks();
    const corners = new Uint32Array(6 * order.length), step = leap(order.length);
    for (let index = 0, at = 0; index < order.length; index++, at = (at + step) % order.length) {
      for (let corner = 0; corner < 6; corner++) corners[6 * index + corner] = 4 * order[at] + CORNERS[corner];
    }
    const each = new Uint32Array(4 * looks.length); // two numbers of each pair, at its four corners
    for (let at = 0; at < each.length; at++) each[at] = looks[2 * (at >> 3) + (at & 1)];
    gl.bindVertexArray(lines);
    this.fill(gl.ARRAY_BUFFER, buffers[1], each);
    this.fill(gl.ARRAY_BUFFER, buffers[3], Uint32Array.from(drawing.handed.order, (node) => colours[node]));
    this.fill(gl.ELEMENT_ARRAY_BUFFER, buffers[4], corners);
    drawing.handed.shown = order.length;
    drawing.stale = false;
  }

  /** Draw edges, and nodes if they are shown, as the drawing sees them, and copy them onto it. */
  draw(drawing) {
    const { gl, canvas } = this, { graph, ratio, canvas: own, context } = drawing, now = performance.now();
    if (drawing.handed?.graph !== graph) this.take(drawing);
    const { handed } = drawing, moves = drawing.moves && !drawing.stale;
    if (drawing.stale) this.dress(drawing);
    // While it moves, as many edges as make a frame in time; when it has come to rest, all of them.
    const took = now - this.drawn, far = Math.min(Math.max(SOON / took, 0.03), 1.3);
    if (moves && took < 3000) this.most = Math.max(Math.min(this.most, this.some) * far, LEAST);
    const share = moves ? Math.min(this.most / Math.max(handed.shown, 1), 1) : 1;
    this.drawn = now;
    this.some = share * handed.shown;
    clearTimeout(this.rest);
    if (share < 1) this.rest = setTimeout(() => drawing.draw(), 250);
    drawing.moves = false;
    if (canvas.width !== own.width || canvas.height !== own.height) [canvas.width, canvas.height] = [own.width, own.height];
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    if (graph.faces && drawing.layers.faces) this.shade(drawing);
    this.start(this.lines, handed.lines, drawing, drawing.lineWidth());
    gl.drawElements(gl.TRIANGLES, 6 * Math.ceil(share * handed.shown), gl.UNSIGNED_INT, 0);
    if (drawing.layers.nodes) {
      this.start(this.discs, handed.discs, drawing, drawing.nodeSize());
      gl.drawArrays(gl.POINTS, 0, Math.ceil(share * graph.nodes));
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(canvas, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  /** Draw the faces, those that are missing or too many in their colours, a little behind the edges. */
  shade(drawing) {
    const { gl } = this, { layers, colours, graph, handed } = drawing;
    const kinds = [[blend(colours.ground, colours.ink, 0.22), true], [colours.missing, layers.missing], [colours.extra, layers.extra]];
    this.start(this.faces, handed.faces, drawing, 1);
    gl.enable(gl.POLYGON_OFFSET_FILL);
    gl.polygonOffset(2, 2);
    let first = 0;
    kinds.forEach(([colour, shown], kind) => {
      const count = 3 * graph.faceCounts[kind];
      gl.uniform3fv(this.faces.uniforms.get("tint"), channels(colour).map((value) => value / 255));
      if (shown && count) gl.drawElements(gl.TRIANGLES, count, gl.UNSIGNED_INT, 4 * first);
      first += count;
    });
    gl.disable(gl.POLYGON_OFFSET_FILL);
  }

  start({ made, uniforms }, layout, drawing, thick) {
    const { gl } = this, { width, height, shift, scale, radius, ratio, turned, colours } = drawing;
    const solid = drawing.graph.dimensions === 3, at = (name) => uniforms.get(name);
    gl.useProgram(made);
    gl.bindVertexArray(layout);
    gl.uniformMatrix3fv(at("turned"), true, solid ? turned : [1, 0, 0, 0, 1, 0, 0, 0, 1]);
    gl.uniform2f(at("size"), width, height);
    gl.uniform2f(at("middle"), width / 2 + shift[0], height / 2 + shift[1]);
    gl.uniform3fv(at("ground"), channels(colours.ground).map((value) => value / 255));
    for (const [name, value] of Object.entries({ unit: drawing.unit() * scale, eye: EYE * radius, radius, ratio, thick })) gl.uniform1f(at(name), value);
    gl.uniform1i(at("solid"), solid);
  }
}
