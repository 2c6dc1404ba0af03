/* The worker of gln play: one model at a time, one set after another. */

let engine = null;

self.onmessage = ({ data }) => {
  try {
    if (data.model) {
      engine = new Engine(bytesOf(data.wasm), data.model);
      return;
    }
    const begin = performance.now(), found = engine.run(data.pos, data.nodes);
    self.postMessage({ ...found, length: null, nodes: data.nodes, took: performance.now() - begin });
  } catch (error) {
    self.postMessage({ error: String(error.message ?? error) });
  }
};
