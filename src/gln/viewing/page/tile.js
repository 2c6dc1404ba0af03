/* One small graph of a gallery, rotated by dragging sideways or with the arrow keys, never in the way of scrolling. */

class Tile extends GraphView {
  /**
   * @param packed one of the views that Python packed
   * @param word what kind it is in the gallery, such as best or worst
   */
  constructor(packed, word, { thresholds, groups }) {
    super(make("canvas", { tabindex: "0", role: "img" }));
    this.counts = make("div", { class: "counts" });
    this.f1 = make("span", { class: "f1" });
    const row = make("div", { class: "row" }, make("span", { class: "word" }, word), make("span", { class: "name" }, packed.name), this.f1);
    this.host = make("figure", { class: "tile" }, this.canvas, make("figcaption", {}, row, this.counts));
    this.show(new Graph(packed, thresholds), groups);
    this.layers.nodes = this.graph.image === null;
    if (this.graph.dimensions === 3) {
      this.canvas.classList.add("solid");
      this.canvas.title = "drag to rotate";
    }
    this.word = word;
    this.step(this.graph.steps - 1);
  }

  /** Show a step of the recurrence, or the last one if there are fewer. */
  step(number) {
    const { graph } = this, step = Math.min(number, graph.steps - 1), count = graph.count(step, graph.own);
    graph.judge(step, graph.own, this.kinds, this.strength);
    const judged = graph.truth && graph.predicted;
    this.f1.textContent = judged ? `F1 ${scores(count).f1.toFixed(4)}` : "";
    this.counts.textContent = judged
      ? `${whole(graph.nodes)} nodes, ${whole(count.found - count.other)} right, ${whole(count.true - count.found)} missing, ${whole(count.chosen - count.found)} extra${count.other ? `, ${whole(count.other)} of another type` : ""}`
      : `${whole(graph.nodes)} nodes, ${whole(count.chosen)} edges`;
    this.canvas.setAttribute("aria-label", `${this.word}: ${graph.name}. ${this.f1.textContent} ${this.counts.textContent}`);
    this.render();
  }

  listen() {
    const { canvas } = this;
    let before = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (this.graph.dimensions !== 3) return;
      canvas.setPointerCapture(event.pointerId);
      before = [event.clientX, event.clientY];
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!before) return;
      this.turn(event.clientX - before[0], event.clientY - before[1]);
      before = [event.clientX, event.clientY];
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { before = null; });
    canvas.addEventListener("dblclick", () => this.reset());
    canvas.addEventListener("keydown", (event) => {
      const way = { ArrowLeft: [-20, 0], ArrowRight: [20, 0], ArrowUp: [0, -20], ArrowDown: [0, 20] }[event.key];
      if (!way || this.graph.dimensions !== 3) return;
      event.preventDefault();
      this.turn(...way);
    });
  }
}
