/* Curves over epochs, steps or time, as an SVG that shows the values under the pointer. */

const SIDES = { left: 46, right: 14, top: 14, bottom: 26 };
const WIDE_RANGE = 30; // above this ratio of the largest to the smallest value, the scale is logarithmic

/** Four decimals, or three significant digits of a small number. */
const digits = (value) => (value === 0 || Math.abs(value) >= 1e-3 ? value.toFixed(4) : value.toPrecision(3));
/** A number written as short as possible. */
const short = (value) => (value !== 0 && Math.abs(value) < 1e-4 ? value.toExponential() : String(Number(value.toPrecision(6))));

/** Seconds as text with a unit. */
function duration(seconds) {
  if (seconds < 100) return `${Number(seconds.toPrecision(3))} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 100 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

class Chart {
  /**
   * @param title what the values are
   * @param series [{name, kind, at: {epoch, step, seconds}, values}]; kind is a class of the style sheet
   * @param options low: where the axis begins; format: a value as text; best: an epoch to mark
   * @param point is called with the epoch that is pointed at, or null
   */
  constructor(title, series, { low = null, format = digits, best = null, point = () => {} } = {}) {
    Object.assign(this, { title, series, low, format, best, point, axis: "epoch", now: null });
    const values = series.flatMap((one) => one.values), least = Math.min(...values), most = Math.max(...values);
    this.log = low === null && least > 0 && most / least > WIDE_RANGE;
    const keys = series.length < 2 ? [] : series.map((one) => make("span", {}, make("i", { class: one.kind }), one.name));
    this.tip = make("div", { class: "tip" }, make("b"));
    this.tip.hidden = true;
    this.svg = this.tag("svg", { "aria-hidden": "true" });
    const words = series.map((one) => `${series.length < 2 ? "" : `${one.name} `}from ${format(one.values[0])} to ${format(one.values.at(-1))}`);
    this.host = make("div", { class: "chart", tabindex: "0", role: "img", "aria-label": `${title}: ${words.join("; ")}. Arrow keys read the values.` },
      make("div", { class: "keys" }, make("h3", {}, `${title}${this.log ? ", logarithmic" : ""}`), ...keys), this.svg, this.tip);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  tag(tag, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  /** Draw over epoch, step or seconds. */
  over(axis) {
    this.axis = axis;
    this.draw();
  }

  draw() {
    const width = this.svg.clientWidth, height = this.svg.clientHeight;
    if (!width) return;
    const { log, series, axis } = this, add = (tag, attributes, text) => this.svg.append(this.tag(tag, attributes, text));
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const all = series.flatMap((one) => one.values), places = series.flatMap((one) => one.at[axis]);
    let [low, high] = [this.low ?? Math.min(...all), Math.max(...all)];
    if (log) [low, high] = [Math.log10(low), Math.log10(high)];
    const room = (high - low) * 0.07 || Math.abs(high) * 0.1 || 1;
    if (this.low === null) low -= room;
    high += room;
    const end = Math.max(...places), start = Math.min(axis === "epoch" ? 1 : 0, ...places);
    const from = start === end ? start - 1 : start, to = start === end ? end + 1 : end;
    this.x = (value) => SIDES.left + ((value - from) / (to - from)) * (width - SIDES.left - SIDES.right);
    this.y = (value) => height - SIDES.bottom - (((log ? Math.log10(value) : value) - low) / (high - low)) * (height - SIDES.top - SIDES.bottom);

    for (const tick of log ? logTicks(low, high) : ticks(low, high, 5)) {
      const y = this.y(tick);
      add("line", { class: "grid", x1: SIDES.left, x2: width - SIDES.right, y1: y, y2: y });
      add("text", { x: SIDES.left - 7, y: y + 4, "text-anchor": "end" }, short(tick));
    }
    const unit = axis === "seconds" ? (end < 180 ? [1, "s"] : end < 10800 ? [60, "min"] : [3600, "h"]) : [1, axis];
    const marks = ticks(from / unit[0], to / unit[0], Math.max(Math.floor(width / 80), 2)).filter((mark) => axis === "seconds" || Number.isInteger(mark));
    for (const mark of marks) {
      add("text", { x: this.x(mark * unit[0]), y: height - 8, "text-anchor": "middle" }, mark.toLocaleString("en"));
    }
    add("text", { x: 2, y: height - 8 }, unit[1]);
    if (this.best !== null) {
      const number = series[0].at.epoch.indexOf(this.best), x = this.x(series[0].at[axis][number]);
      add("line", { class: "best", x1: x, x2: x, y1: SIDES.top - 4, y2: height - SIDES.bottom });
      add("text", { x, y: SIDES.top - 7, "text-anchor": x > width - 60 ? "end" : x < 60 ? "start" : "middle" }, "best");
    }
    for (const one of series) {
      const path = one.values.map((value, index) => `${index ? "L" : "M"}${this.x(one.at[axis][index]).toFixed(2)} ${this.y(value).toFixed(2)}`);
      add("path", { class: `line ${one.kind}`, d: path.join("") });
      if (one.values.length < 2) add("circle", { class: `dot ${one.kind}`, cx: this.x(one.at[axis][0]), cy: this.y(one.values[0]), r: 4 });
    }
    this.marks = this.tag("g", {});
    this.svg.append(this.marks);
    this.show(this.now);
  }

  /** Mark the values nearest to an epoch with dots; null removes them. */
  show(epoch, told = false) {
    this.now = epoch;
    this.tip.hidden = epoch === null || !told;
    if (!this.marks) return;
    this.marks.replaceChildren();
    if (epoch === null) return;
    const rows = [];
    this.series.forEach((one, order) => {
      const index = nearest(one.at.epoch, epoch), x = this.x(one.at[this.axis][index]), y = this.y(one.values[index]);
      if (order === 0) {
        const height = this.svg.clientHeight;
        this.marks.append(this.tag("line", { class: "cursor", x1: x, x2: x, y1: SIDES.top, y2: height - SIDES.bottom }));
        const [at, step, seconds] = ["epoch", "step", "seconds"].map((axis) => one.at[axis][index]);
        rows.push(make("b", {}, `epoch ${Number(at.toFixed(2))}`), make("span", {}, `step ${whole(step)}, ${duration(seconds)}`));
      }
      this.marks.append(this.tag("circle", { class: `dot ${one.kind}`, cx: x, cy: y, r: 4 }));
      rows.push(make("span", {}, `${one.name} ${this.format(one.values[index])}`));
    });
    if (!told) return;
    this.tip.replaceChildren(...rows);
    const x = this.x(this.series[0].at[this.axis][nearest(this.series[0].at.epoch, epoch)]), box = this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(x + 26 + box > this.host.clientWidth ? x - box - 2 : x + 26, 4)}px`;
    element("said").textContent = rows.map((row) => row.textContent).join(", ");
  }

  listen() {
    const { host, svg } = this, first = this.series[0];
    const look = (event) => {
      const x = event.clientX - svg.getBoundingClientRect().left;
      const index = nearest(first.at[this.axis].map((value) => this.x(value)), x);
      this.point(first.at.epoch[index], this);
    };
    svg.addEventListener("pointermove", look);
    svg.addEventListener("pointerdown", look);
    svg.addEventListener("pointerleave", () => this.point(null, this));
    host.addEventListener("blur", () => this.point(null, this));
    host.addEventListener("keydown", (event) => {
      const last = first.values.length - 1, here = this.now === null ? null : nearest(first.at.epoch, this.now);
      const to = { ArrowLeft: (here ?? last + 1) - 1, ArrowRight: (here ?? -1) + 1, Home: 0, End: last }[event.key];
      if (event.key === "Escape") this.point(null, this);
      if (to === undefined) return;
      event.preventDefault();
      this.point(first.at.epoch[Math.min(Math.max(to, 0), last)], this);
    });
  }
}

/** The index of the value nearest to the wanted one. */
function nearest(values, wanted) {
  let best = 0;
  values.forEach((value, index) => { if (Math.abs(value - wanted) < Math.abs(values[best] - wanted)) best = index; });
  return best;
}

/** About `count` round numbers from low to high. */
function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const found = [];
  for (let number = Math.ceil(low / step - 1e-9); number * step <= high + step * 1e-9; number++) found.push(Number((number * step).toPrecision(12)));
  return found;
}

/** Powers of ten, with 2 and 5 times these if they are few. */
function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(low); power <= high; power++) {
    for (const factor of high - low > 3 ? [1] : [1, 2, 5]) {
      const tick = Number((factor * 10 ** power).toPrecision(6));
      if (Math.log10(tick) >= low && Math.log10(tick) <= high) found.push(tick);
    }
  }
  return found;
}
