// The table of kernels: sorted by any column, searched, summed by kernel, node or type.

const bar = (share, className) => {
  const node = element('span', {class: `bar ${className || ''}`, 'aria-hidden': 'true'});
  node.style.width = `${Math.max(0, Math.min(100, 100 * (share || 0))).toFixed(2)}%`;
  return node;
};

/** Columns: `key` to sort by, heading, what it means, a cell's text. */
function kernelColumns(context) {
  const {by, clock, timed, peaks, most, forms} = context;
  const field = name => description(`kernels[].${name}`);
  const columns = [
    {key: 'step', label: by === 'step' ? 'step' : 'steps', hint: by === 'step' ? field('step') : 'how many steps of the plan', number: true,
      sort: row => (by === 'step' ? row.steps[0] : row.steps.length),
      text: row => (by === 'step' ? `#${row.steps[0]}` : String(row.steps.length))},
    {key: 'name', label: by === 'node' ? 'ONNX nodes' : by === 'type' ? 'type' : 'kernel', hint: {node: field('nodes'), type: field('op')}[by] || field('symbol'),
      sort: row => row.name, text: row => row.name, name: true},
    {key: 'time', label: timed ? `time, ${clock.unit}` : 'time', hint: field('total_ms'), number: true, only: timed, sort: row => row.ms || 0,
      text: row => clock.text(clock.count(row.ms || 0)), bar: row => (row.ms || 0) / most, wide: true},
    {key: 'share', label: 'share', hint: field('share'), number: true, only: timed, sort: row => row.share || 0, text: row => percentText(row.share)},
    {key: 'sum', label: 'sum', hint: 'the shares of the rows from the worst down to this one, added up', number: true, only: timed,
      sort: row => row.cumulative || 0, text: row => percentText(row.cumulative), bar: row => row.cumulative, pale: true},
    {key: 'flops', label: 'operations', hint: field('flops'), number: true, only: !timed, sort: row => row.flops || 0, text: row => countText(row.flops)},
    {key: 'bytes', label: 'traffic', hint: field('bytes'), number: true, only: !timed, sort: row => row.bytes || 0, text: row => bytesText(row.bytes)},
    {key: 'gflops', label: 'GFLOP/s', hint: field('gflop_per_s'), number: true, only: timed, sort: row => row.gflops || 0, text: row => numberText(row.gflops)},
    {key: 'gbs', label: 'GB/s', hint: field('gb_per_s'), number: true, only: timed, sort: row => row.gbs || 0, text: row => numberText(row.gbs)},
    {key: 'roof', label: 'of roof', number: true, only: timed && Boolean(peaks), sort: row => row.roof || 0, bar: row => row.roof, pale: true,
      hint: "the least time that the machine's measured peaks allow for its operations and traffic, over its time; above 100 % where the algorithm needs fewer operations than are counted, or data come from caches",
      text: row => percentText(row.roof, 0)},
    {key: 'form', label: 'form', hint: 'the algorithm, of ops that have several', only: by !== 'type' && forms, sort: row => row.form, text: row => row.form},
    {key: 'nodes', label: 'ONNX nodes', hint: field('nodes'), only: by === 'step' || by === 'kernel', sort: row => row.nodeText, text: row => row.nodeText, cut: true},
  ];
  return columns.filter(column => column.only !== false);
}

function kernelCell(column, row, colours) {
  const text = column.text(row);
  const cell = element('td', {class: `${column.number ? 'number' : ''}${column.cut ? ' cut' : ''}${column.wide ? ' wide' : ''}`, 'data-column': column.key});
  if (column.bar) cell.append(bar(column.bar(row), column.pale ? 'pale' : `fill ${colours.of(row.type)}`));
  if (column.name) cell.append(element('i', {class: `swatch ${colours.of(row.type)}`, 'aria-hidden': 'true'}));
  cell.append(element('span', {class: 'text', title: column.cut && text.length > 40 ? text : null}, text));
  return cell;
}

/** One or more rows below the table's, as sums of what stands there. */
function footRow(label, columns, total, clock, count) {
  const texts = {name: label, step: count === null ? '' : String(count), time: clock.text(count === null ? 0 : 0), share: percentText(total.share),
    flops: countText(total.flops), bytes: bytesText(total.bytes), gflops: numberText(total.gflops), gbs: numberText(total.gbs)};
  texts.time = clock.text(total.count);
  return element('tr', {}, columns.map(column =>
    element(column.name ? 'th' : 'td', {class: column.number ? 'number' : '', 'data-column': column.key, scope: column.name ? 'row' : null},
      texts[column.key] === undefined ? '' : texts[column.key])));
}

class KernelTable {
  constructor(container, document) {
    this.document = document;
    this.kernels = kernelsOf(document);
    this.timed = this.kernels.some(kernel => isNumber(kernel.total_ms));
    this.colours = typeColours(document);
    this.by = 'step';
    this.top = 50;
    this.order = this.timed ? {key: 'time', down: true} : {key: 'step', down: false};
    this.words = '';
    this.opened = null;
    this.table = element('table', {class: 'kernels', id: 'kernel-table'});
    this.status = element('p', {class: 'small', id: 'kernel-status', 'aria-live': 'polite'});
    this.search = element('input', {type: 'search', id: 'kernel-search', placeholder: 'Search kernels, nodes, ops', 'aria-label': 'Search kernels, nodes, ops',
      on: {input: () => { this.words = this.search.value.trim().toLowerCase(); this.draw(); }}});
    container.append(
      element('div', {class: 'controls'},
        choice('kernels-by', 'Rows by', [['step', 'step'], ['kernel', 'kernel'], ['node', 'node'], ['type', 'type']], 'step', by => { this.by = by; this.opened = null; this.draw(); }),
        select('Show', [...[10, 50, 200].map(count => [count, `${this.timed ? 'worst' : 'first'} ${count}`]), [0, 'all']], 50, top => { this.top = Number(top); this.draw(); }, {id: 'kernel-top'}),
        this.search),
      typeLegend(this.colours), element('div', {class: 'scroll'}, this.table), this.status);
    this.table.addEventListener('keydown', event => this.moveFocus(event));
    onSelect((step, from) => { if (from !== 'kernels') this.reveal(step); });
    this.draw();
  }

  draw() {
    const {peaks} = this.document;
    const all = kernelRows(this.kernels, this.by, peaks);
    const total = totalOf(all);
    this.clock = clockFor(total.ms || 0);
    this.columns = kernelColumns({by: this.by, clock: this.clock, timed: this.timed, peaks, most: extent(all.map(row => row.ms))[1] || 1,
      forms: all.some(row => row.form)});
    if (!this.columns.some(column => column.key === this.order.key)) this.order = {key: this.timed ? 'time' : 'step', down: this.timed};
    const found = this.words ? all.filter(row => this.words.split(/\s+/).every(word => row.search.includes(word))) : all;
    const kept = this.top > 0 ? found.slice(0, this.top) : found;
    const rest = found.slice(kept.length);
    this.sortRows(kept);
    this.table.replaceChildren(element('caption', {class: 'away'}, 'Kernels'), this.heading(),
      element('tbody', {}, kept.map((row, i) => this.row(row, i))), this.foot(all, found, kept, rest));
    this.status.textContent = this.relation(all, total);
  }

  sortRows(rows) {
    const {sort} = this.columns.find(column => column.key === this.order.key);
    const sign = this.order.down ? -1 : 1;
    rows.sort((a, b) => {
      const [x, y] = [sort(a), sort(b)];
      return sign * (typeof x === 'string' ? x.localeCompare(y) : x - y) || a.steps[0] - b.steps[0];
    });
  }

  heading() {
    return element('thead', {}, element('tr', {}, this.columns.map(column => {
      const chosen = column.key === this.order.key;
      const sort = button(column.label, () => {
        this.order = {key: column.key, down: chosen ? !this.order.down : Boolean(column.number) && column.key !== 'step'};
        this.draw();
        this.table.querySelector(`th[data-column="${column.key}"] button`).focus({preventScroll: true});
      });
      withHint(sort, column.hint);
      return element('th', {scope: 'col', 'data-column': column.key, class: column.number ? 'number' : '',
        'aria-sort': chosen ? (this.order.down ? 'descending' : 'ascending') : 'none'}, sort);
    })));
  }

  row(row, index) {
    const line = element('tr', {tabindex: index === 0 ? '0' : '-1', 'data-step': row.steps[0],
      'aria-expanded': this.by === 'step' ? 'false' : null,
      class: this.by === 'step' && row.steps[0] === shown.step ? 'chosen' : ''},
    this.columns.map(column => kernelCell(column, row, this.colours)));
    line.addEventListener('click', () => this.open(row, line));
    line.row = row;
    return line;
  }

  foot(all, found, kept, rest) {
    const count = rows => sum(rows.map(row => this.clock.count(row.ms || 0)));
    const lines = [];
    const add = (label, rows) => lines.push(footRow(label, this.columns, Object.assign(totalOf(rows), {count: count(rows)}), this.clock, rows.length));
    if (rest.length > 0) add(`others: ${rest.length}`, rest);
    if (found.length < all.length) add(`found: ${found.length} of ${all.length}`, found);
    add(`total: ${all.length}`, all);
    return element('tfoot', {}, lines);
  }

  /** How the kernels' sum and a whole run's time relate. */
  relation(all, total) {
    if (!this.timed) {
      const open = all.some(row => row.bytes === null);
      return (open ? 'Operations and traffic depend on dimensions that are not known: --shape fixes them. ' : '') +
        'Not timed: gantry profile FILE --json RESULT.json measures what each takes.';
    }
    // Streams share the machine: their runs are not what the kernels' times are a part of.
    const run = streamsOf(this.document) ? 0 : this.document.median_ms;
    if (!(run > 0)) return '';
    const {clock} = this;
    const kernels = sum(all.map(row => clock.count(row.ms || 0)));
    const whole = clock.count(run);
    // Gaps are short beside kernels; a rest that is not may be runs that something else slowed down.
    const rest = whole > 1.25 * kernels ? 'is between kernels, or whole runs were held up where kernels were not' : 'is between kernels';
    return whole >= kernels
      ? `Kernels take ${clock.text(kernels)} ${clock.unit} of ${clock.text(whole)} ${clock.unit} a run; the rest, ${clock.text(whole - kernels)} ${clock.unit}, ${rest}.`
      : `Kernels take ${clock.text(kernels)} ${clock.unit} with a clock around each, ${clock.text(kernels - whole)} ${clock.unit} more than a whole run without clocks: ${clock.text(whole)} ${clock.unit}.`;
  }

  open(row, line) {
    if (this.by !== 'step') {
      // From a sum to its steps.
      this.by = 'step';
      this.search.value = row.name;
      this.words = row.name.toLowerCase();
      document.querySelector('input[name="kernels-by"][value="step"]').checked = true;
      return this.draw();
    }
    const step = row.steps[0];
    const wasOpen = line.nextSibling && line.nextSibling.classList.contains('details');
    for (const details of this.table.querySelectorAll('tr.details')) {
      details.previousSibling.setAttribute('aria-expanded', 'false');
      details.remove();
    }
    selectStep(wasOpen ? null : step, 'kernels');
    this.mark(wasOpen ? null : step);
    if (wasOpen) return undefined;
    line.setAttribute('aria-expanded', 'true');
    line.after(element('tr', {class: 'details'}, element('td', {colspan: this.columns.length}, stepDetails(this.document, step))));
    return undefined;
  }

  mark(step) {
    for (const line of this.table.querySelectorAll('tbody tr[data-step]')) line.classList.toggle('chosen', line.dataset.step === String(step));
  }

  /** Shows the row of a step that was chosen elsewhere. */
  reveal(step) {
    if (step === null) return this.mark(null);
    if (this.by !== 'step') {
      this.by = 'step';
      document.querySelector('input[name="kernels-by"][value="step"]').checked = true;
      this.draw();
    }
    let line = this.table.querySelector(`tr[data-step="${step}"]`);
    if (!line) {
      this.words = this.search.value = '';
      this.top = 0;
      document.getElementById('kernel-top').value = '0';
      this.draw();
      line = this.table.querySelector(`tr[data-step="${step}"]`);
    }
    return this.mark(step);
  }

  moveFocus(event) {
    const line = event.target.closest('tbody tr[data-step]');
    if (!line || event.target !== line) return;
    const lines = Array.from(this.table.querySelectorAll('tbody tr[data-step]'));
    const at = lines.indexOf(line);
    const to = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: lines.length - 1}[event.key];
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      this.open(line.row, line);
    } else if (to !== undefined && lines[to]) {
      event.preventDefault();
      line.tabIndex = -1;
      lines[to].tabIndex = 0;
      lines[to].focus();
    }
  }
}

function drawKernels(container, document) {
  if (kernelsOf(document).length === 0) {
    return void container.append(missing('Kernels were not timed. A profile does so:', 'gantry profile MODEL --json RESULT.json'));
  }
  return void new KernelTable(container, document);
}
