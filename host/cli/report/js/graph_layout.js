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

/** done(layout) once dagre has one; never where the browser allows no workers. Returns a function that stops it. */
function dagreLayout(graph, done) {
  let worker = null;
  try {
    const source = new Blob([document.getElementById('worker').textContent], {type: 'text/javascript'});
    const address = URL.createObjectURL(source);
    worker = new Worker(address);
    worker.onmessage = event => {
      worker.terminate();
      URL.revokeObjectURL(address);
      done(event.data);
    };
    worker.onerror = event => {
      event.preventDefault();
      worker.terminate();
      done(null);
    };
    worker.postMessage({nodes: graph.nodes.map(({width, height}) => ({width, height})), edges: graph.edges.map(({from, to}) => ({from, to}))});
  } catch (error) {
    done(null);
  }
  return () => worker && worker.terminate();
}
