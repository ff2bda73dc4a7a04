// The plan as a graph: its steps, the model's inputs and outputs, and who reads what another writes.

/** Constants are counted at the steps that read them; views stand for the value whose bytes they show. */
function graphOf(document) {
  const {program} = document;
  const values = new Map(program.values.map(value => [value.id, value]));
  const real = id => {
    for (let hops = 0; hops < 64; ++hops) {
      const value = values.get(id);
      if (!value || value.kind !== 'view' || !isNumber(value.shows)) return id;
      id = value.shows;
    }
    return id;
  };
  const kernels = byStep(document.kernels);
  const nodes = [];
  const places = new Map();
  const add = node => {
    places.set(node.id, nodes.length);
    nodes.push(Object.assign(node, {index: nodes.length}));
  };
  for (const value of program.values.filter(value => value.kind === 'input')) add({id: `v${value.id}`, kind: 'input', title: value.name, note: value.type || '', width: 0, height: 34});
  for (const step of program.steps) {
    const kernel = kernels.get(step.step);
    const constants = (step.reads || []).map(id => values.get(id)).filter(value => value && value.kind === 'constant');
    add({id: `s${step.step}`, kind: 'step', step: step.step, type: typeOf(step), title: nameOf(step), note: graphNote(step, kernel), kernel,
      constants: constants.length, constantBytes: sum(constants.map(value => value.bytes)), share: kernel ? kernel.share : null, height: 46,
      search: `${nameOf(step)} ${step.name} ${(step.nodes || []).join(' ')} #${step.step}`.toLowerCase()});
  }
  for (const value of program.values.filter(value => value.kind === 'output')) add({id: `v${value.id}`, kind: 'output', title: value.name, note: value.type || '', height: 34});
  for (const node of nodes) node.width = Math.max(110, Math.min(230, 26 + 6.9 * Math.max(node.title.length, node.note.length * 0.92)));
  return {nodes, edges: graphEdges(program, values, places, real), places};
}

function graphNote(step, kernel) {
  if (kernel && isNumber(kernel.total_ms)) return `${timeText(kernel.total_ms)}  ${percentText(kernel.share)}`;
  return isNumber(step.flops) && step.flops > 0 ? `${countText(step.flops)} operations` : step.name;
}

/** From whoever wrote a value last before it is read; from inputs, and to outputs. */
function graphEdges(program, values, places, real) {
  const writer = new Map();
  const edges = new Map();
  const connect = (from, to, id) => {
    const [a, b] = [places.get(from), places.get(to)];
    if (a === undefined || b === undefined || a === b) return;
    const key = `${a} ${b}`;
    if (!edges.has(key)) edges.set(key, {from: a, to: b, values: []});
    edges.get(key).values.push(values.get(id));
  };
  for (const value of program.values) if (value.kind === 'input') writer.set(value.id, `v${value.id}`);
  for (const step of program.steps) {
    for (const id of step.reads || []) {
      const source = writer.get(real(id));
      if (source !== undefined) connect(source, `s${step.step}`, id);
    }
    for (const id of step.writes || []) writer.set(real(id), `s${step.step}`);
  }
  for (const value of program.values) {
    if (value.kind === 'output' && writer.has(real(value.id))) connect(writer.get(real(value.id)), `v${value.id}`, value.id);
  }
  return Array.from(edges.values());
}
