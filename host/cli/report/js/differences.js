// Two results against each other: the verdict of `gantry compare`, and the kernels sorted by what they cost or gain.

/** Kernels of both results that share a node belong together, however each result has fused them. */
function matchedKernels(first, second) {
  const entries = [];
  const owner = new Map();
  const parent = [];
  const find = i => {
    while (parent[i] !== i) i = parent[i] = parent[parent[i]];
    return i;
  };
  for (const [side, kernels] of [[0, first], [1, second]]) {
    for (const kernel of kernels) {
      const number = entries.length;
      entries.push({side, kernel});
      parent.push(number);
      const keys = (kernel.nodes || []).length > 0 ? kernel.nodes.map(node => `node ${node}`) : [`kernel ${nameOf(kernel)}`];
      for (const key of keys) {
        if (owner.has(key)) parent[find(number)] = find(owner.get(key));
        else owner.set(key, number);
      }
    }
  }
  const groups = new Map();
  entries.forEach((entry, i) => {
    const root = find(i);
    if (!groups.has(root)) groups.set(root, {sides: [[], []], nodes: new Set()});
    const group = groups.get(root);
    group.sides[entry.side].push(entry.kernel);
    for (const node of entry.kernel.nodes || []) group.nodes.add(node);
  });
  return Array.from(groups.values()).map(differenceOf);
}

function differenceOf({sides, nodes}) {
  const [a, b] = sides.map(kernels => sum(kernels.map(kernel => kernel.total_ms)));
  const name = kernels => Array.from(new Set(kernels.map(nameOf))).join(', ');
  const form = kernels => Array.from(new Set(kernels.map(formOf).filter(Boolean))).join(', ');
  const types = Array.from(new Set(sides.flat().map(typeOf))).join(', ');
  return {
    a: sides[0].length > 0 ? a : null, b: sides[1].length > 0 ? b : null, delta: b - a, ratio: sides[0].length > 0 && sides[1].length > 0 && a > 0 ? b / a : null,
    firstName: name(sides[0]), secondName: name(sides[1]), firstForm: form(sides[0]), secondForm: form(sides[1]), types, step: sides[1].length > 0 ? sides[1][0].step : null,
    nodeText: Array.from(nodes).join(', '),
  };
}

function changedName(first, second) {
  if (first === second) return [first];
  return [element('span', {class: first ? 'was' : ''}, first || '–'), ' → ', second || '–'];
}

function differenceBar(delta, most) {
  const node = element('span', {class: `difference ${delta > 0 ? 'loss' : 'gain'}`, 'aria-hidden': 'true'});
  node.style.width = `${(50 * Math.abs(delta) / most).toFixed(2)}%`;
  return node;
}

function signed(text, value) {
  return value > 0 ? `+${text}` : value < 0 ? `−${text}` : text;
}

const DIFFERENCE_COLUMNS = [
  {key: 'delta', label: 'difference', number: true, sort: row => Math.abs(row.delta), hint: "the second's time less the first's: what was lost or gained"},
  {key: 'kernel', label: 'kernel', sort: row => row.firstName, hint: 'its name; where it changed, both. Kernels that share an ONNX node are compared, however each result has fused them'},
  {key: 'a', label: 'first', number: true, sort: row => row.a || 0, hint: 'time in one run of the first'},
  {key: 'b', label: 'second', number: true, sort: row => row.b || 0, hint: 'time in one run of the second'},
  {key: 'ratio', label: 'ratio', number: true, sort: row => row.ratio || 0, hint: "the second's time over the first's"},
  {key: 'form', label: 'form', sort: row => row.firstForm, hint: 'the algorithm, of ops that have several'},
  {key: 'nodes', label: 'ONNX nodes', sort: row => row.nodeText, cut: true},
];

class DifferenceTable {
  constructor(container, first, second) {
    this.rows = matchedKernels(first, second);
    this.order = {key: 'delta', down: true};
    this.words = '';
    this.clock = clockFor(Math.max(sum(first.map(kernel => kernel.total_ms)), sum(second.map(kernel => kernel.total_ms))));
    this.table = element('table', {class: 'rows', id: 'difference-table'});
    const search = element('input', {type: 'search', placeholder: 'Search kernels, nodes', 'aria-label': 'Search differences', id: 'difference-search',
      on: {input: () => { this.words = search.value.trim().toLowerCase(); this.draw(); }}});
    container.append(element('div', {class: 'controls'}, search), element('div', {class: 'scroll'}, this.table));
    this.draw();
  }

  draw() {
    const {sort} = DIFFERENCE_COLUMNS.find(column => column.key === this.order.key);
    const found = this.rows.filter(row => `${row.firstName} ${row.secondName} ${row.nodeText} ${row.types}`.toLowerCase().includes(this.words));
    found.sort((x, y) => {
      const [a, b] = [sort(x), sort(y)];
      return (this.order.down ? -1 : 1) * (typeof a === 'string' ? a.localeCompare(b) : a - b);
    });
    const most = extent(this.rows.map(row => Math.abs(row.delta)))[1] || 1;
    this.table.replaceChildren(this.heading(), element('tbody', {}, found.map(row => this.row(row, most))),
      element('tfoot', {}, this.total(found, found.length < this.rows.length ? `found: ${found.length} of ${this.rows.length}` : `total: ${found.length}`)));
  }

  heading() {
    return element('thead', {}, element('tr', {}, DIFFERENCE_COLUMNS.map(column => {
      const chosen = column.key === this.order.key;
      const label = ['delta', 'a', 'b'].includes(column.key) ? `${column.label}, ${this.clock.unit}` : column.label;
      const sort = withHint(button(label, () => {
        this.order = {key: column.key, down: chosen ? !this.order.down : Boolean(column.number)};
        this.draw();
        this.table.querySelector(`th[data-column="${column.key}"] button`).focus({preventScroll: true});
      }), column.hint);
      return element('th', {scope: 'col', class: column.number ? 'number' : '', 'data-column': column.key,
        'aria-sort': chosen ? (this.order.down ? 'descending' : 'ascending') : 'none'}, sort);
    })));
  }

  time(ms) {
    return ms === null ? '–' : this.clock.text(this.clock.count(ms));
  }
  /** Counted as the two times are, so that the row is right as it is printed. */
  delta(row) {
    const count = this.clock.count(row.b || 0) - this.clock.count(row.a || 0);
    return signed(this.clock.text(Math.abs(count)), count);
  }

  row(row, most) {
    return element('tr', {}, element('td', {class: 'number diff', 'data-column': 'delta'}, differenceBar(row.delta, most), element('span', {class: 'text'}, this.delta(row))),
      element('td', {'data-column': 'kernel'}, changedName(row.firstName, row.secondName)),
      element('td', {class: 'number', 'data-column': 'a'}, this.time(row.a)), element('td', {class: 'number', 'data-column': 'b'}, this.time(row.b)),
      element('td', {class: 'number', 'data-column': 'ratio'}, row.ratio === null ? (row.a === null ? 'new' : 'gone') : row.ratio.toFixed(3)),
      element('td', {'data-column': 'form'}, changedName(row.firstForm, row.secondForm)),
      element('td', {class: 'cut', 'data-column': 'nodes'}, element('span', {class: 'text', title: row.nodeText}, row.nodeText)));
  }

  total(rows, label) {
    const count = key => sum(rows.map(row => this.clock.count(row[key] || 0)));
    const [a, b] = [count('a'), count('b')];
    return element('tr', {}, element('td', {class: 'number', 'data-column': 'delta'}, signed(this.clock.text(Math.abs(b - a)), b - a)), element('th', {scope: 'row'}, label),
      element('td', {class: 'number'}, this.clock.text(a)), element('td', {class: 'number'}, this.clock.text(b)),
      element('td', {class: 'number'}, a > 0 ? (b / a).toFixed(3) : '–'), element('td', {colspan: 2}));
  }
}

/** Both medians and their intervals on one scale. */
function intervalChart(sides, width) {
  const frame = plotFrame(width, sides.length * 30 + 46, 'Medians and their intervals', {left: Math.min(240, width * 0.34), top: 8});
  const speeds = sides.map(({document}) => speedOf(document));
  const [low, high] = extent(speeds.flatMap(speed => [speed.ms, ...(speed.interval && !isVague(speed) ? speed.interval : [])]));
  const pad = Math.max((high - low) * 0.08, high * 0.01);
  const x = linear(Math.max(0, low - pad), high + pad, frame.x0, frame.x1);
  const [unit, size] = timeUnit(high);
  const values = ticks(x.low / size, x.high / size, Math.max(3, Math.floor(width / 150)));
  for (const value of values) frame.svg.append(lineFrom(x(value * size), frame.y0, x(value * size), frame.y1, 'grid'));
  frame.svg.append(xAxis(frame, value => x(value * size), values, tickText(values), `${sides.some(({document}) => streamsOf(document)) ? 'time between two results' : 'median time of a run'}, ${unit}`));
  const within = ms => Math.max(frame.x0, Math.min(frame.x1, x(ms)));
  sides.forEach(({name}, i) => {
    const {ms, interval} = speeds[i];
    const y = frame.y1 + 15 + i * 30;
    if (!isNumber(ms)) return;
    frame.svg.append(textAt(frame.x0 - 8, y + 4, cutText(name, frame.x0 - 14, 6.6), {'text-anchor': 'end'}));
    if (interval) frame.svg.append(lineFrom(within(interval[0]), y, within(interval[1]), y, 'whisker'));
    frame.svg.append(shape('circle', {cx: x(ms), cy: y, r: 5, class: 'process-dot'}));
  });
  return frame.svg;
}

function verdictBox(comparison) {
  if (!comparison) return null;
  if (comparison.problem) return element('p', {class: 'verdict care'}, 'Not compared: ', prose(comparison.problem));
  const tone = {faster: 'good', slower: 'care', same: 'good'}[comparison.verdict] || 'plain';
  const [low, high] = comparison.interval;
  return element('div', {class: `verdict ${tone}`, id: 'verdict', 'data-verdict': comparison.verdict},
    element('b', {}, comparison.sentence), element('div', {}, term(`ratio ${comparison.ratio.toFixed(4)}`, description('ratio', data.comparison_descriptions)), ', ',
      term(`${percentText(comparison.confidence, 0)} interval ${low.toFixed(4)} to ${high.toFixed(4)}`, description('interval', data.comparison_descriptions))),
    comparison.widened.length > 0 ? element('div', {class: 'small'}, `wider because of ${comparison.widened.join('; ')}`) : null,
    comparison.warnings.length > 0 ? element('ul', {class: 'small'}, comparison.warnings.map(warning => element('li', {}, prose(warning)))) : null);
}

function drawDifferences(container) {
  const pair = drawDifferences.pair;
  const body = element('div', {});
  const redraw = () => {
    const [first, second] = pair.map(i => results[i]);
    body.replaceChildren();
    const chart = element('div', {class: 'charts'});
    body.append(verdictBox(comparisonOf(pair[0], pair[1])) || missing('A result compared with itself.'), chart);
    responsive(chart, width => chart.append(intervalChart([{name: `first: ${first.file}`, document: first.document}, {name: `second: ${second.file}`, document: second.document}], width)));
    const [a, b] = [first, second].map(result => (result.document.kernels || []));
    if (a.length === 0 || b.length === 0) {
      body.append(missing('Kernels of both are needed to say where the difference comes from:', 'gantry profile MODEL --json RESULT.json'));
    } else {
      body.append(element('h3', {}, 'Kernels, by what they cost or gain'), element('p', {class: 'small'},
        'Times of kernels are medians of runs with a clock around each, of one process of each result: small differences mean nothing.'));
      new DifferenceTable(body, a, b);
    }
  };
  if (results.length > 2) {
    const choices = results.map((result, i) => [i, result.file]);
    container.append(element('div', {class: 'controls'}, ['First', 'Second'].map((label, side) =>
      select(label, choices, pair[side], value => { pair[side] = Number(value); redraw(); }, {id: `difference-${side}`}))));
  }
  container.append(body);
  redraw();
}
drawDifferences.pair = [0, 1];
