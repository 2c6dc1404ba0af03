/* A drawing that can be rotated, moved, zoomed and pointed at. */

class GraphView extends Drawing {
  /**
   * @param canvas to fill, whatever its size
   * @param point is called with what is under the pointer ({node}, {pair} or null) and its position
   */
  constructor(canvas, point = () => {}) {
    super(canvas);
    this.point = point;
    this.pointers = new Map();
    this.listen();
  }

  show(graph, palette) {
    super.show(graph, palette);
    this.point(null);
  }

  /** The node, or else the drawn edge, at a point of the canvas; null if there is none. */
  find(x, y, reach = 9) {
    const { graph, seen, depth } = this;
    if (!graph) return null;
    let best = null, least = reach ** 2;
    if (this.layers.nodes || graph.image) {
      for (let node = 0; node < graph.nodes; node++) {
        const away = (seen[2 * node] - x) ** 2 + (seen[2 * node + 1] - y) ** 2 - depth[node];
        if (away < least) { least = away; best = { node }; }
      }
      if (best) return best;
    }
    least = (reach * 0.7) ** 2;
    for (const pair of this.order ?? []) {
      const a = 2 * graph.source[pair], b = 2 * graph.target[pair];
      const dx = seen[b] - seen[a], dy = seen[b + 1] - seen[a + 1];
      const along = Math.min(Math.max(((x - seen[a]) * dx + (y - seen[a + 1]) * dy) / (dx * dx + dy * dy || 1), 0), 1);
      const away = (seen[a] + along * dx - x) ** 2 + (seen[a + 1] + along * dy - y) ** 2;
      if (away < least) { least = away; best = { pair }; }
    }
    return best;
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const scale = Math.min(Math.max(this.scale * factor, 0.2), 60), grown = scale / this.scale;
    const from = [x - this.width / 2, y - this.height / 2];
    this.shift = this.shift.map((value, axis) => from[axis] - (from[axis] - value) * grown);
    this.scale = scale;
    this.touched = true;
    this.render(false);
  }

  pan(dx, dy) {
    this.shift = [this.shift[0] + dx, this.shift[1] + dy];
    this.touched = true;
    this.render(false);
  }

  turn(dx, dy) {
    const speed = 2.2 / Math.max(Math.min(this.width, this.height), 1);
    const [a, b] = [dx * speed, dy * speed];
    const about = [Math.cos(a), 0, Math.sin(a), 0, 1, 0, -Math.sin(a), 0, Math.cos(a)];
    const over = [1, 0, 0, 0, Math.cos(b), -Math.sin(b), 0, Math.sin(b), Math.cos(b)];
    this.turned = multiply(over, multiply(about, this.turned));
    this.touched = true;
    this.render(false);
  }

  listen() {
    const { canvas, pointers } = this;
    const where = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const look = (event) => {
      const [x, y] = where(event), hit = this.find(x, y, event.pointerType === "touch" ? 18 : 9);
      if (hit?.node !== this.hit?.node || hit?.pair !== this.hit?.pair) {
        this.hit = hit;
        this.render(false);
      }
      this.point(hit, x, y);
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, where(event));
      this.moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId), now = where(event);
      if (!before) { look(event); return; }
      const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
      this.moved += Math.abs(dx) + Math.abs(dy);
      if (pointers.size === 2) {
        const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
        const apart = (place) => Math.hypot(place[0] - other[0], place[1] - other[1]) || 1;
        this.pan(dx / 2, dy / 2);
        this.zoom(apart(now) / apart(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      } else if (this.graph?.dimensions === 3 && !event.shiftKey && !(event.buttons & 6)) {
        this.turn(dx, dy);
      } else {
        this.pan(dx, dy);
      }
      pointers.set(event.pointerId, now);
      if (this.moved > 4) this.point((this.hit = null));
    });
    const leave = (event) => {
      if (pointers.delete(event.pointerId) && this.moved <= 4 && event.type === "pointerup") look(event);
    };
    canvas.addEventListener("pointerup", leave);
    canvas.addEventListener("pointercancel", leave);
    canvas.addEventListener("pointerleave", () => {
      if (pointers.size || !this.hit) return;
      this.point((this.hit = null));
      this.render(false);
    });
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("dblclick", () => this.reset());
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const speed = event.deltaMode === 1 ? 0.05 : event.ctrlKey ? 0.01 : 0.0016;
      this.zoom(Math.exp(-event.deltaY * speed), ...where(event));
    }, { passive: false });
  }
}
