// The head of a page of `gantry inspect --html`: what a model or module is that has not run.

function tensorTable(title, tensors) {
  if (!tensors || tensors.length === 0) return null;
  return element('div', {}, element('h3', {}, title), element('div', {class: 'scroll'}, element('table', {class: 'facts'}, element('tbody', {},
    tensors.map(tensor => element('tr', {}, element('th', {scope: 'row'}, tensor.name || ''),
      element('td', {}, tensor.type || `${tensor.dtype || ''} (${(tensor.shape || []).join(', ')})`)))))));
}

function opTable(ops) {
  const entries = Object.entries(ops || {});
  if (entries.length === 0) return null;
  const most = entries.reduce((most, [, count]) => Math.max(most, count), 1);
  return element('div', {}, element('h3', {}, 'Ops'), element('table', {class: 'rows ops', id: 'op-table'}, element('tbody', {}, entries.map(([op, count]) =>
    element('tr', {}, element('th', {scope: 'row'}, op), element('td', {class: 'number wide'}, bar(count / most, 'fill c0'), element('span', {class: 'text'}, String(count))))))));
}

function inspectionFigures(inspection) {
  const {weights} = inspection;
  const rows = [
    ['producer', inspection.producer], ['IR version', inspection.ir_version],
    ['opsets', inspection.opsets ? Object.entries(inspection.opsets).map(([domain, version]) => `${domain} ${version}`).join(', ') : null],
    ['nodes', inspection.nodes], ['parameters', isNumber(inspection.parameters) ? countText(inspection.parameters) : null],
    ['weights', weights && isNumber(weights.bytes) ? `${bytesText(weights.bytes)} in ${plural(weights.tensors, 'tensor')}` : null],
    ...Object.entries(weights && weights.by_type || {}).map(([type, count]) => [`weights, ${type}`, `${countText(count.parameters)} parameters, ${bytesText(count.bytes)}`]),
    ['model', inspection.kind === 'module' ? inspection.model : null], ['optimised for', inspection.optimize],
    ['weights', isNumber(inspection.weights_bytes) ? bytesText(inspection.weights_bytes) : null],
    ['open dimensions', (inspection.symbols || []).join(', ')],
    ['plan below for', inspection.program ? inspection.program.target : null],
  ];
  return element('table', {class: 'facts'}, element('tbody', {}, rows.filter(([, value]) => value !== null && value !== undefined && value !== '')
    .map(([label, value]) => element('tr', {}, element('th', {scope: 'row'}, label), element('td', {}, String(value))))));
}

function variantTable(variants) {
  if (!variants || variants.length === 0) return null;
  const size = bytes => (isNumber(bytes) ? bytesText(bytes) : String(bytes));
  return element('div', {}, element('h3', {}, 'Code for'), element('div', {class: 'scroll'}, element('table', {class: 'rows', id: 'variant-table'},
    element('thead', {}, element('tr', {}, ['target', 'device', 'code', 'constants', 'workspace'].map((head, i) => element('th', {scope: 'col', class: i > 1 ? 'number' : ''}, head)))),
    element('tbody', {}, variants.map(variant => element('tr', {}, element('th', {scope: 'row'}, variant.target), element('td', {}, variant.device),
      element('td', {class: 'number'}, size(variant.code_bytes)), element('td', {class: 'number'}, size(variant.constant_bytes)),
      element('td', {class: 'number'}, size(variant.workspace_bytes))))))));
}

function drawInspection(container, inspection) {
  container.append(element('h1', {id: 'title'}, fileName(inspection.file)),
    element('p', {class: 'subtitle'}, `a ${inspection.kind || 'model'} that has not run; gantry bench times it, and gantry report shows that`));
  if (inspection.error) {
    container.append(element('div', {class: 'verdict care', id: 'warnings'}, element('b', {}, 'gantry cannot use it'), element('p', {class: 'lines'}, inspection.error)));
  }
  for (const part of [inspectionFigures(inspection), tensorTable('Inputs', inspection.inputs), tensorTable('Outputs', inspection.outputs), variantTable(inspection.variants)]) {
    if (part) container.append(part);
  }
  const ops = opTable(inspection.ops);
  if (ops) container.append(ops);
}
