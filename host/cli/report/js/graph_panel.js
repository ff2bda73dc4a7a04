// All that is known of one step of the plan, in the table of kernels and beside the graph.

function textBlock(title, text) {
  return text ? element('details', {}, element('summary', {}, title), element('pre', {}, text)) : null;
}

function valueList(title, ids, values) {
  if (!ids || ids.length === 0) return null;
  return element('div', {class: 'values'}, element('h4', {}, title), element('ul', {}, ids.map(id => {
    const value = values.get(id);
    if (!value) return element('li', {}, `value ${id}`);
    return element('li', {}, element('b', {}, value.name || `value ${id}`), ` ${value.kind}`,
      value.type ? ` ${value.type}` : '', isNumber(value.bytes) ? `, ${bytesText(value.bytes)}` : '',
      isNumber(value.offset) ? ` at ${value.offset.toLocaleString('en')}` : '');
  })));
}

function detailRows(document, kernel, step) {
  const ms = kernel && kernel.total_ms;
  const flops = kernel ? kernel.flops : step.flops;
  const bytes = kernel ? kernel.bytes : step.bytes;
  const roof = isNumber(ms) ? shareOfRoof(document.peaks, {ms, flops: flops || 0, bytes: bytes || 0}) : null;
  const of = name => description(`kernels[].${name}`);
  return [
    ['step', `#${(step || kernel).step}`, of('step')],
    ['ops', (step || kernel).name, of('name')],
    ['nodes', ((step || kernel).nodes || []).join(', '), of('nodes')],
    ['decision', step && step.decision, 'how it is computed'],
    ['measured', isNumber(ms) ? `${timeText(ms, 4)}, ${percentText(kernel.share)} of all kernels` : null, of('total_ms')],
    ['predicted', step && isNumber(step.predicted_ms) ? `${timeText(step.predicted_ms, 4)}${ms > 0 ? ` (measured: ${numberText(ms / step.predicted_ms)} times that)` : ''}` : null,
      'by the analytic model that the compiler chooses with'],
    ['predicted', step && !isNumber(step.predicted_ms) && isNumber(step.predicted_cycles) ? `${countText(step.predicted_cycles)} cycles of one core` : null,
      'by the analytic model that the compiler chooses with'],
    ['operations', isNumber(flops) ? `${countText(flops)}${kernel && isNumber(kernel.gflop_per_s) ? `, ${numberText(kernel.gflop_per_s)} GFLOP/s` : ''}` : null, of('flops')],
    ['traffic', isNumber(bytes) ? `${bytesText(bytes)}${kernel && isNumber(kernel.gb_per_s) ? `, ${numberText(kernel.gb_per_s)} GB/s` : ''}` : null, of('bytes')],
    ['of the roof', roof === null ? null : percentText(roof, 0), "the least time that the machine's measured peaks allow, over its time"],
  ].filter(([, value]) => value !== null && value !== undefined && value !== '');
}

/** Links to where the step is elsewhere on the page. */
function elsewhere(document, number) {
  const places = [['graph', 'in the graph', Boolean(document.program)], ['timeline', 'on the timeline', Boolean(document.timeline)],
    ['memory', 'in the memory map', Boolean(document.program)], ['roofline', 'on the roofline', Boolean(document.kernels)]];
  return element('p', {class: 'links'}, places.filter(([, , there]) => there).map(([id, text]) =>
    element('a', {href: `#${id}`, on: {click: () => selectStep(number, 'details')}}, text)));
}

/** Steps that call one kernel have its code at the first. */
function codeOf(document, step) {
  if (step.loops || step.assembly || !step.symbol) return step;
  return document.program.steps.find(other => other.symbol === step.symbol && (other.loops || other.assembly)) || step;
}

function stepDetails(document, number) {
  const kernel = byStep(document.kernels).get(number);
  const step = document.program ? byStep(document.program.steps).get(number) : null;
  if (!kernel && !step) return element('p', {}, `nothing is known of step ${number}`);
  const values = new Map(document.program ? document.program.values.map(value => [value.id, value]) : []);
  return element('div', {class: 'step-details'},
    element('h3', {}, nameOf(step || kernel)),
    element('table', {class: 'facts'}, element('tbody', {}, detailRows(document, kernel, step).map(([label, value, hint]) =>
      element('tr', {}, element('th', {scope: 'row'}, term(label, hint)), element('td', {}, String(value)))))),
    step ? [valueList('reads', step.reads, values), valueList('writes', step.writes, values)] : null,
    step ? [textBlock('graph', step.graph), textBlock('loop nest', codeOf(document, step).loops), textBlock('assembly', codeOf(document, step).assembly)] : null,
    step && !step.graph && (step.symbol || kernel && kernel.symbol)
      ? element('p', {class: 'small'}, 'Its code: ', element('code', {}, `gantry ir ${shellQuoted(fileName(document.model || document.file || 'MODEL'))} --kernel ${shellQuoted(step.symbol || kernel.symbol)}`)) : null,
    elsewhere(document, number));
}
