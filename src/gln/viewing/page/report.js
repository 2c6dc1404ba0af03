/* The report of a run: every number and word of the run comes from the data in the page, as text. */

const ends = ([low, high]) => `${digits(low)} – ${digits(high)}`;

class Report {
  constructor(data) {
    this.data = data;
    this.charts = [];
    this.tiles = [];
    document.title = data.title;
    element("title").textContent = data.title;
    element("method").textContent = data.method;
    this.tell("state", data.state.words);
    this.tell("verdict", data.scores?.verdict);
    this.heads();
    this.training();
    this.scores();
    this.gallery();
    this.repeat();
    this.facts();
    dressing(() => {
      this.tiles.forEach((tile) => tile.readColours());
      this.listTypes(this.tiles.some((tile) => tile.graph.predicted));
    });
  }

  /** Show a sentence in its place, or hide the place if there is none. */
  tell(id, words) {
    element(id).textContent = words ?? "";
    element(id).hidden = !words;
  }

  heads() {
    const { history, best, scores, weights, threshold } = this.data, heads = [];
    const score = (name) => scores?.rows.find((row) => row.name === name);
    for (const name of ["dice", "iou", "mmd_degree", "novelty"]) {
      const row = score(name);
      if (row && heads.length < 2) heads.push([`${row.title} ${row.arrow}`, digits(row.value), row.interval ? `${ends(row.interval)} on the test graphs` : "on the test graphs"]);
    }
    if (best !== null) heads.push(["validation IoU ↑", digits(history[best - 1].val_iou), `epoch ${best} of ${history.length}`]);
    if (history.length) heads.push(["training", duration(history.at(-1).seconds), `${whole(history.at(-1).step)} steps`]);
    if (weights) heads.push(["weights", whole(weights), this.data.method]);
    if (threshold !== null && threshold !== undefined) heads.push(["threshold", threshold.toFixed(2), "pairs at or above it are edges"]);
    element("heads").hidden = !heads.length;
    element("heads").append(...heads.map(([name, value, more]) =>
      make("div", {}, make("dt", {}, name), make("dd", {}, value, make("small", {}, more)))));
  }

  training() {
    const { history, rates, best } = this.data;
    element("training").hidden = !history.length;
    if (!history.length) return;
    const column = (name) => history.map((row) => row[name]);
    const at = { epoch: column("epoch"), step: column("step"), seconds: column("seconds") };
    const point = (epoch, chart) => this.charts.forEach((one) => one.show(epoch, one === chart));
    this.charts = [
      new Chart("Loss ↓", [
        { name: "validation", kind: "val", at, values: column("val_loss") },
        { name: "training", kind: "train", at, values: column("train_loss") },
      ], { best, point }),
      new Chart("Validation IoU ↑", [{ name: "IoU", kind: "val", at, values: column("val_iou") }], { best, point }),
    ];
    if (rates.lr) {
      const { lr: values, ...over } = rates;
      this.charts.push(new Chart("Learning rate", [{ name: "rate", kind: "val", at: over, values }],
        { low: 0, format: (value) => String(Number(value.toPrecision(3))), point }));
    }
    element("charts").append(...this.charts.map((chart) => chart.host));
    const again = this.data.starts.length > 1 ? " If the run was resumed for more epochs, it followed a shorter schedule before." : "";
    element("training-note").textContent =
      `Validation scores are those at the end of each epoch, at the threshold chosen in it. The learning rate is computed from the settings.${again}`;
    element("axis").addEventListener("change", (event) => this.charts.forEach((chart) => chart.over(event.target.value)));
    element("numbers").addEventListener("toggle", () => this.listNumbers(), { once: true });
  }

  listNumbers() {
    const { history, best } = this.data, names = Object.keys(history[0]);
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, name.replace("_", " "))))));
    const cell = (name, value) => (Number.isInteger(value) ? String(value) : name === "seconds" ? value.toFixed(1) : digits(value));
    table.append(make("tbody", {}, ...history.map((row) => make("tr", row.epoch === best ? { class: "best" } : {},
      ...names.map((name, index) => make(index ? "td" : "th", index ? {} : { scope: "row" }, cell(name, row[name])))))));
    element("numbers").querySelector("div").replaceChildren(table);
  }

  scores() {
    const { scores, why } = this.data;
    this.tell("why", why);
    element("scores").classList.toggle("scored", Boolean(scores));
    if (!scores) return;
    const more = ["interval", "pooled", "floor"].filter((name) => scores.rows.some((row) => row[name] !== null));
    const show = (name, value) => (value === null ? "" : name === "interval" ? ends(value) : digits(value));
    const titles = ["metric", "value", ...more.map((name) => (name === "interval" ? "95 % interval" : name)), ...scores.rules];
    const head = make("tr", {}, ...titles.map((name) => make("th", { scope: "col" }, name)));
    const rows = scores.rows.map((row) => make("tr", { "data-name": row.name },
      make("th", { scope: "row" }, row.title, make("span", { class: "arrow", title: row.arrow === "↑" ? "higher is better" : "lower is better" }, row.arrow)),
      ...["value", ...more].map((name) => make("td", {}, show(name, row[name]))),
      ...row.rules.map((value) => make("td", { class: "rule" }, show("rule", value)))));
    element("scores").querySelector(".scroll").append(make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
    this.typeTables(scores.types ?? []);
    const legend = ["↑ higher is better, ↓ lower is better."];
    if (scores.types?.length) legend.push("A type is scored over all pairs: an edge that is missing, extra or of another type counts as wrong; micro counts all edges together, macro is the mean over types.");
    if (scores.rows.some((row) => row.name === "directions")) legend.push("Directions are scored over the pairs that are joined in truth and in the prediction, whichever way.");
    if (scores.rows.some((row) => row.name.startsWith("weight_"))) legend.push("Weights are scored over the edges that are predicted and true.");
    if (more.includes("pooled")) legend.push("Value is the mean over graphs; pooled counts all graphs as one.");
    if (scores.rules.length) legend.push(`Beside the model: simple rules, fitted on the training graphs (${scores.rules.join(", ")}).`);
    if (more.includes("interval")) legend.push("Intervals are over graphs or, where these are few, over nodes drawn again and again.");
    if (more.includes("floor")) legend.push("Floor is the MMD² between training and test graphs: what a perfect model can expect.");
    element("scores-notes").append(...[legend.join(" "), ...scores.notes.filter((note) => !note.startsWith("MMD² floor"))].map((note) => make("p", {}, note)));
  }

  /** Of each type of edge: its scores, and as what it was predicted. */
  typeTables(tables) {
    const host = element("types");
    host.hidden = !tables.length;
    for (const { names, columns, each, confusion } of tables) {
      const table = (titles, rows, caption) => make("div", { class: "scroll" }, make("table", {},
        make("caption", {}, caption),
        make("thead", {}, make("tr", {}, ...titles.map((name) => make("th", { scope: "col" }, name)))),
        make("tbody", {}, ...rows)));
      host.append(
        table(["type of edge", ...columns], each.map(([name, ...values]) => make("tr", {},
          make("th", { scope: "row" }, name), ...values.map((value) => make("td", {}, digits(value))))), "Each type"),
        table(["true \\ predicted", ...names], confusion.map((row, at) => make("tr", {},
          make("th", { scope: "row" }, names[at]),
          ...row.map((count, other) => make("td", at === other ? { class: "same" } : count ? {} : { class: "none" }, whole(count))))), "Pairs by their true and their predicted type"));
    }
  }

  gallery() {
    const { gallery } = this.data;
    element("gallery").hidden = !gallery;
    if (!gallery) return;
    this.tell("gallery-note", gallery.note);
    if (!gallery.words.length) return;
    this.tiles = gallery.views.map((view, number) => new Tile(view, gallery.words[number], gallery));
    element("tiles").append(...this.tiles.map((tile) => tile.host));
    const judged = this.tiles.some((tile) => tile.graph.predicted);
    document.body.classList.toggle("on-image", this.tiles.some((tile) => tile.graph.image));
    const typed = this.tiles.some((tile) => tile.graph.types), right = typed ? {} : { right: "predicted and true" };
    const names = judged ? { ...right, missing: "missing", extra: "extra" } : {};
    element("legend").append(...Object.entries(names).map(([kind, name]) => make("li", {}, make("i", { class: `swatch ${kind}` }), name)));
    this.listTypes(judged);
    element("gallery-title").textContent = judged ? "Best, median and worst test graphs by F1" : "Test graphs and samples";
    const last = Math.max(...this.tiles.map((tile) => tile.graph.steps)) - 1, input = element("step");
    element("recurrence").hidden = last < 1;
    const go = (step) => {
      setRange(input, 0, last, step, `A${raise(step)}, step ${step} of ${last}`);
      element("step-value").textContent = `A${raise(step)} of A${raise(last)}`;
      this.tiles.forEach((tile) => tile.step(step));
    };
    go(last);
    input.addEventListener("input", () => go(Number(input.value)));
  }

  /** The types of edges and nodes, in the colours of the theme. */
  listTypes(judged) {
    const drawing = this.tiles.find((tile) => tile.graph.types || tile.graph.nodeTypes), rows = [];
    if (!drawing) return;
    const { graph } = drawing;
    for (const [names, ofNodes] of [[graph.typeNames, false], [graph.nodeNames, true]]) {
      names.forEach((name, type) => {
        const swatch = make("i", { class: "swatch" });
        dressSwatch(swatch, drawing, type, ofNodes);
        rows.push(make("li", { class: "type" }, swatch, name));
      });
    }
    if (judged && graph.types && graph.trueTypes) rows.push(make("li", { class: "type" }, make("i", { class: "swatch other" }), "of another type"));
    element("legend").querySelectorAll(".type").forEach((row) => row.remove());
    element("legend").append(...rows);
  }

  repeat() {
    const { command, resume, state } = this.data;
    element("command").hidden = !command;
    // A flag and its value stay on one line if there is room.
    const words = (command ?? "").split(/ (?=-)/).flatMap((word, number) => [number ? " " : "", make("span", {}, word)]);
    element("command").querySelector("code").append(...words);
    const note = command
      ? "Repeated where it was typed, with the versions below, it gives the same weights, bit for bit on a CPU."
      : "The folder of this run does not say which command started it; the settings below are all that is known.";
    element("repeat-note").textContent = `${note}${resume && !state.finished ? " To resume this run, repeat the command that started it with --resume." : ""}`;
    element("copy").addEventListener("click", async () => {
      const code = element("command").querySelector("code");
      getSelection().selectAllChildren(code); // so that it can be copied by hand if the browser refuses
      await navigator.clipboard?.writeText(code.textContent);
      element("copy").textContent = "Copied";
      setTimeout(() => { element("copy").textContent = "Copy"; }, 1500);
    });
  }

  facts() {
    const { data, settings, starts } = this.data, groups = [];
    if (data.length) groups.push({ name: "trained on", rows: data });
    groups.push(...settings);
    starts.forEach((start, number) => {
      const device = "threads" in start ? [["device", start.gpu ?? `CPU, ${start.threads} threads`]] : [];
      const rows = [["time", start.time], ["commit", start.commit], ...device, ["platform", start.platform], ...Object.entries(start.versions ?? {})];
      groups.push({ name: starts.length > 1 ? `environment of start ${number + 1}` : "environment", rows: rows.filter(([, value]) => value) });
    });
    element("facts").append(...groups.map(({ name, rows }) => make("section", rows.length > 14 ? { class: "long" } : {}, make("h3", {}, name),
      make("dl", {}, ...rows.map(([key, value, changed]) => make("div", changed ? { class: "changed", title: "not the default value" } : {}, make("dt", {}, key), make("dd", {}, value)))))));
  }
}

window.report = new Report(JSON.parse(element("data").textContent));
