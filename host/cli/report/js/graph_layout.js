// Where nodes of a graph go: at once in layers, and better by dagre, which computes beside the page.

/** Layers by the longest way from an input; within a layer in the order of what they read. */
function layeredLayout(graph) {
  const rank = new Array(graph.nodes.length).fill(0);
  const before = graph.nodes.map(() => []);
  const edges = graph.edges.slice().sort((a, b) => a.from - b.from);
  for (const edge of edges) before[edge.to].push(edge.from);
  // Nodes stand in the order that they run in: inputs, steps, outputs.
  graph.nodes.forEach((node, i) => {
    for (const from of before[i]) if (from < i) rank[i] = Math.max(rank[i], rank[from] + 1);
  });
  const layers = [];
  graph.nodes.forEach((node, i) => (layers[rank[i]] = layers[rank[i]] || []).push(i));
  const x = new Array(graph.nodes.length).fill(0);
  const places = new Array(graph.nodes.length);
  let y = 0;
  for (const layer of layers) {
    if (!layer) continue;
    const wish = i => (before[i].length > 0 ? sum(before[i].map(from => x[from])) / before[i].length : 0);
    layer.sort((a, b) => wish(a) - wish(b));
    const width = sum(layer.map(i => graph.nodes[i].width + 26)) - 26;
    let left = sum(layer.map(wish)) / layer.length - width / 2;
    const height = Math.max(...layer.map(i => graph.nodes[i].height));
    for (const i of layer) {
      x[i] = left + graph.nodes[i].width / 2;
      places[i] = [x[i], y + height / 2];
      left += graph.nodes[i].width + 26;
    }
    y += height + 34;
  }
  return {nodes: places, edges: graph.edges.map(edge => [places[edge.from], places[edge.to]])};
}

/** dagre's layout of a graph, which comes from a worker: `layout` is undefined until then, null where the browser allows no workers. */
class ComingLayout {
  constructor(graph) {
    this.waiting = [];
    try {
      this.address = URL.createObjectURL(new Blob([document.getElementById('worker').textContent], {type: 'text/javascript'}));
      this.worker = new Worker(this.address);
      this.worker.onmessage = event => this.settle(event.data);
      this.worker.onerror = event => {
        event.preventDefault();
        this.settle(null);
      };
      this.worker.postMessage({nodes: graph.nodes.map(({width, height}) => ({width, height})), edges: graph.edges.map(({from, to}) => ({from, to}))});
    } catch (error) {
      this.settle(null);
    }
  }

  settle(layout) {
    this.stop();
    this.layout = layout;
    for (const done of this.waiting.splice(0)) done(layout);
  }

  /** done(layout), now or when it has come. */
  whenThere(done) {
    if (this.layout === undefined) this.waiting.push(done); else done(this.layout);
  }

  stop() {
    if (this.worker) this.worker.terminate();
    URL.revokeObjectURL(this.address);
  }
}
