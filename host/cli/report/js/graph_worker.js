// Runs beside the page, behind dagre: lays a graph out and posts where its nodes and edges are.
//
// A network is long and narrow: at most blocks' ends a single node joins what is before it with what follows. The graph is cut there into
// stretches of some dozens of nodes, which dagre arranges one by one: the time no longer grows with the square of the length, and its
// recursion stays shallow.

const FEWEST_IN_A_STRETCH = 40;

/** Nodes that no edge passes by; nodes are in an order in which edges lead forward. */
function cutsOf(count, edges) {
  const passing = new Array(count + 1).fill(0);
  for (const edge of edges) {
    const [first, last] = [Math.min(edge.from, edge.to), Math.max(edge.from, edge.to)];
    if (last - first < 2) continue;
    ++passing[first + 1];
    --passing[last];
  }
  const cuts = [];
  let now = 0;
  for (let i = 0; i < count; ++i) {
    now += passing[i];
    const last = cuts.length > 0 ? cuts[cuts.length - 1] : 0;
    if (now === 0 && i - last >= FEWEST_IN_A_STRETCH && count - i > 8) cuts.push(i);
  }
  return cuts;
}

/** Of the nodes first … last; both ends, where they are cuts, stay alone at top and bottom. */
function layOut(nodes, edges, first, last, isCut) {
  const graph = new dagre.graphlib.Graph();
  // Network simplex is the finest and the slowest; long stretches are hardly worse by a tight tree.
  graph.setGraph({rankdir: 'TB', nodesep: 26, ranksep: 34, edgesep: 12, ranker: last - first > 250 ? 'tight-tree' : 'network-simplex'});
  graph.setDefaultEdgeLabel(() => ({}));
  for (let i = first; i <= last; ++i) graph.setNode(String(i), {width: nodes[i].width, height: nodes[i].height});
  const reached = new Set();
  const left = new Set();
  for (const edge of edges) {
    graph.setEdge(String(edge.from), String(edge.to));
    left.add(edge.from);
    reached.add(edge.to);
  }
  for (let i = first + 1; i < last; ++i) {
    if (isCut.has(first) && !reached.has(i)) graph.setEdge(String(first), String(i), {weight: 0});
    if (isCut.has(last) && !left.has(i)) graph.setEdge(String(i), String(last), {weight: 0});
  }
  dagre.layout(graph);
  return graph;
}

onmessage = event => {
  const {nodes, edges} = event.data;
  const cuts = cutsOf(nodes.length, edges);
  const isCut = new Set(cuts);
  const ends = [0, ...cuts, nodes.length - 1];
  const within = new Array(ends.length - 1).fill(null).map(() => []);
  edges.forEach((edge, number) => {
    const upper = Math.max(edge.from, edge.to);
    const stretch = ends.findIndex((end, i) => i > 0 && upper <= end) - 1;
    within[Math.max(0, stretch)].push({number, from: edge.from, to: edge.to});
  });
  const placed = new Array(nodes.length);
  const lines = new Array(edges.length);
  for (let i = 0; i + 1 < ends.length; ++i) {
    const graph = layOut(nodes, within[i], ends[i], ends[i + 1], isCut);
    const start = graph.node(String(ends[i]));
    const [dx, dy] = placed[ends[i]] ? [placed[ends[i]][0] - start.x, placed[ends[i]][1] - start.y] : [0, 0];
    for (let n = ends[i]; n <= ends[i + 1]; ++n) {
      const {x, y} = graph.node(String(n));
      placed[n] = [x + dx, y + dy];
    }
    for (const {number, from, to} of within[i]) lines[number] = graph.edge(String(from), String(to)).points.map(point => [point.x + dx, point.y + dy]);
  }
  postMessage({nodes: placed, edges: lines});
};
