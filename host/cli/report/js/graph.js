// The fused graph: pan, zoom, search, and all about a node beside it.

/** A smooth line through points. */
function edgePath(points) {
  if (points.length < 3) {
    const [[ax, ay], [bx, by]] = points;
    const middle = (ay + by) / 2;
    return `M${ax} ${ay}C${ax} ${middle} ${bx} ${middle} ${bx} ${by}`;
  }
  let path = `M${points[0][0]} ${points[0][1]}`;
  for (let i = 1; i < points.length - 1; ++i) {
    const [x, y] = points[i];
    const last = i === points.length - 2;
    const [nx, ny] = last ? points[i + 1] : [(x + points[i + 1][0]) / 2, (y + points[i + 1][1]) / 2];
    path += `Q${x.toFixed(1)} ${y.toFixed(1)} ${nx.toFixed(1)} ${ny.toFixed(1)}`;
  }
  return path;
}

function cutText(text, width, letter) {
  const fits = Math.max(3, Math.floor(width / letter));
  return text.length > fits ? `${text.slice(0, fits - 1)}…` : text;
}

class GraphView {
  constructor(container, document, {graph, coming}) {
    this.document = document;
    this.graph = graph;
    this.colours = typeColours(document);
    this.most = extent(this.graph.nodes.map(node => node.share))[1] || 1;
    this.canvas = shape('g', {});
    this.svg = shape('svg', {class: 'graph', id: 'graph-view', tabindex: '0', role: 'group',
      'aria-label': 'Graph of the plan; + and - zoom, arrow keys move, N and P go to the next and previous step'},
    shape('defs', {}, shape('marker', {id: 'arrow', viewBox: '0 0 8 8', refX: 7, refY: 4, markerUnits: 'userSpaceOnUse', markerWidth: 8, markerHeight: 8, orient: 'auto'},
      shape('path', {d: 'M0 0L8 4L0 8Z', class: 'arrow'}))), this.canvas);
    this.panel = element('aside', {class: 'panel', id: 'graph-panel', 'aria-live': 'polite', 'aria-label': 'The chosen node'});
    this.status = element('span', {class: 'small', id: 'graph-status'});
    this.search = element('input', {type: 'search', id: 'graph-search', placeholder: 'Search; Enter: next', 'aria-label': 'Search nodes of the graph',
      on: {input: () => this.find(), keydown: event => { if (event.key === 'Enter') this.next(); }}});
    this.zoom = zoomable(this.svg, {most: 6, least: 0.01, extent: () => [this.svg.clientWidth || 800, this.svg.clientHeight || 500],
      zoomed: transform => { this.canvas.setAttribute('transform', transform.toString()); this.svg.dataset.zoom = transform.k.toFixed(3); }});
    zoomable.custom.set(this.svg, () => this.fit());
    container.append(element('div', {class: 'controls'}, this.search, this.zoom.controls, this.status), typeLegend(this.colours),
      element('div', {class: 'graph-box'}, this.svg, this.panel));
    this.svg.addEventListener('keydown', event => {
      const way = {n: 1, p: -1}[event.key];
      if (way) this.step(way);
    });
    onSelect((step, from) => { this.mark(step); if (from !== 'graph' && step !== null) this.centre(this.nodeOf(step)); });
    new ResizeObserver(() => this.zoom.bound()).observe(this.svg);
    this.paths = this.graph.edges.map(edge => this.edge(edge));
    this.elements = this.graph.nodes.map(node => this.node(node));
    this.arrange(coming);
  }

  /** Layers at once where dagre would keep a reader waiting; dagre's when it is there. */
  arrange(coming) {
    const large = this.graph.nodes.length > 300;
    const count = `${plural(this.graph.nodes.length, 'node')}, ${plural(this.graph.edges.length, 'edge')}`;
    this.status.textContent = `${count}; arranging …`;
    if (large && coming.layout === undefined) this.place(layeredLayout(this.graph));
    coming.whenThere(layout => {
      this.status.textContent = count;
      this.svg.dataset.layout = layout ? 'dagre' : 'layers';
      if (layout || !this.layoutNow) this.place(layout || layeredLayout(this.graph));
    });
  }

  place(layout) {
    this.layoutNow = layout;
    this.graph.nodes.forEach(({width, height}, i) => {
      const [x, y] = layout.nodes[i];
      this.elements[i].setAttribute('transform', `translate(${(x - width / 2).toFixed(1)} ${(y - height / 2).toFixed(1)})`);
    });
    this.graph.edges.forEach((edge, i) => this.paths[i].setAttribute('d', edgePath(this.pointsOf(edge, layout.edges[i]))));
    if (!this.canvas.hasChildNodes()) this.canvas.append(shape('g', {class: 'edges'}, this.paths), shape('g', {}, this.elements));
    this.fit();
    this.mark(shown.step);
    this.find();
    if (shown.step !== null) this.centre(this.nodeOf(shown.step));
  }

  /** What runs straight from node to node ends at their borders. */
  pointsOf(edge, points) {
    if (points.length >= 3) return points;
    const [from, to] = [this.layoutNow.nodes[edge.from], this.layoutNow.nodes[edge.to]];
    return [[from[0], from[1] + this.graph.nodes[edge.from].height / 2], [to[0], to[1] - this.graph.nodes[edge.to].height / 2]];
  }

  edge(edge) {
    const path = shape('path', {class: 'edge', 'marker-end': 'url(#arrow)', 'data-from': edge.from, 'data-to': edge.to});
    path.addEventListener('pointermove', event => showTip(event.clientX, event.clientY, edge.values.filter(Boolean).slice(0, 6).map(value =>
      `${value.name || `value ${value.id}`}: ${value.type || value.kind}${isNumber(value.bytes) ? `, ${bytesText(value.bytes)}` : ''}`)));
    path.addEventListener('pointerleave', hideTip);
    return path;
  }

  node(node) {
    const {width, height} = node;
    const group = shape('g', {class: `node ${node.kind}`,
      'data-step': node.step === undefined ? null : node.step, 'data-index': node.index},
    shape('rect', {width, height, rx: node.kind === 'step' ? 6 : height / 2, class: 'box'}));
    if (node.kind === 'step') {
      group.append(shape('rect', {width: 6, height: height - 2, x: 1, y: 1, rx: 2, class: this.colours.of(node.type)}));
      if (node.share > 0) group.append(shape('rect', {x: 10, y: height - 5, width: Math.max(1, (width - 16) * node.share / this.most), height: 3, class: this.colours.of(node.type)}));
    }
    const left = node.kind === 'step' ? 14 : 16;
    group.append(textAt(left, node.kind === 'step' ? 17 : 15, cutText(node.title, width - left - 4, 6.9), {class: 'node-title'}),
      textAt(left, node.kind === 'step' ? 33 : 27, cutText(node.note, width - left - 4, 6.1), {class: 'node-note'}));
    group.append(shape('title', {}, node.kind === 'step' ? `#${node.step} ${node.title}${node.constants ? `; ${plural(node.constants, 'constant')}, ${bytesText(node.constantBytes)}` : ''}` : `${node.kind} ${node.title} ${node.note}`));
    if (node.kind === 'step') group.addEventListener('click', () => selectStep(node.step, 'graph'));
    return group;
  }

  nodeOf(step) {
    return this.graph.nodes[this.graph.places.get(`s${step}`)];
  }

  /** The whole graph; of a long one its beginning, at a size that can be read. */
  fit() {
    const {nodes} = this.layoutNow;
    const [left, right] = extent(nodes.flatMap(([x], i) => [x - this.graph.nodes[i].width / 2, x + this.graph.nodes[i].width / 2]));
    const [top, bottom] = extent(nodes.flatMap(([, y], i) => [y - this.graph.nodes[i].height / 2, y + this.graph.nodes[i].height / 2]));
    const width = this.svg.clientWidth || 800;
    const height = this.svg.clientHeight || 500;
    const whole = Math.min((width - 30) / (right - left || 1), (height - 30) / (bottom - top || 1));
    const k = Math.max(Math.min(whole, 1.15), Math.min(0.75, (width - 30) / Math.min(right - left || 1, 900)));
    const first = nodes[0] || [0, 0];
    const middle = (right - left) * k <= width ? (left + right) / 2 : first[0];
    this.zoom.to(d3.zoomIdentity.translate(width / 2 - middle * k, whole < k ? 15 - top * k : height / 2 - (top + bottom) / 2 * k).scale(k));
  }

  centre(node) {
    if (!node || !this.layoutNow) return;
    const [x, y] = this.layoutNow.nodes[node.index];
    const k = Math.max(0.8, Math.min(1.6, this.zoom.current().k));
    this.zoom.to(d3.zoomIdentity.translate((this.svg.clientWidth || 800) / 2 - x * k, (this.svg.clientHeight || 500) / 2 - y * k).scale(k));
  }

  mark(step) {
    const node = step === null ? null : this.nodeOf(step);
    if (this.elements) for (const group of this.elements) group.classList.toggle('chosen', Boolean(node) && group.dataset.index === String(node.index));
    for (const path of this.canvas.querySelectorAll('.edge')) {
      path.classList.toggle('chosen', Boolean(node) && (path.dataset.from === String(node.index) || path.dataset.to === String(node.index)));
    }
    this.panel.replaceChildren(node ? stepDetails(this.document, step) : element('p', {class: 'small'}, 'Click a node to see what it computes, how, and what it costs.'));
  }

  find() {
    const words = this.search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    this.found = words.length === 0 ? [] : this.graph.nodes.filter(node => words.every(word => (node.search || node.title.toLowerCase()).includes(word)));
    const hits = new Set(this.found.map(node => node.index));
    for (const group of this.elements || []) {
      group.classList.toggle('hit', hits.has(Number(group.dataset.index)));
      group.classList.toggle('pale', words.length > 0 && !hits.has(Number(group.dataset.index)));
    }
    this.foundAt = -1;
    if (words.length > 0) this.status.textContent = `${this.found.length} found`;
    if (this.found.length > 0) this.centre(this.found[0]);
  }

  next() {
    if (this.found.length === 0) return;
    this.foundAt = (this.foundAt + 1) % this.found.length;
    const node = this.found[this.foundAt];
    this.status.textContent = `${this.foundAt + 1} of ${this.found.length}`;
    if (node.step !== undefined) selectStep(node.step, 'graph');
    this.centre(node);
  }

  /** The next or previous step, by keyboard. */
  step(way) {
    const steps = this.document.program.steps;
    const at = steps.findIndex(step => step.step === shown.step);
    const to = steps[Math.max(0, Math.min(steps.length - 1, at + way))];
    selectStep(to.step, 'graph');
    this.centre(this.nodeOf(to.step));
  }
}

/** The graph, and its layout, which is begun before anybody comes near; null where there is no plan. */
function prepareGraph(document) {
  if (!document.program || document.program.steps.length === 0) return null;
  const graph = graphOf(document);
  const coming = new ComingLayout(graph);
  return {graph, coming, stop: () => coming.stop()};
}

function drawGraph(container, document, prepared = prepareGraph(document)) {
  if (!prepared) {
    return void container.append(missing('The plan is not in the result. A profile of this version has it:', 'gantry profile MODEL --json RESULT.json'));
  }
  return void new GraphView(container, document, prepared);
}
