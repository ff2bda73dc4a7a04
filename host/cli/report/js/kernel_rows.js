// Kernels as rows of a table: by step, kernel, node or type, as `gantry profile --by` sums them.

const ROW_KEYS = {
  kernel: kernel => nameOf(kernel),
  type: kernel => typeOf(kernel),
  node: kernel => (kernel.nodes || []).join(', ') || nameOf(kernel),
};

/** The sum of those that are known; null: none is. */
function plus(known, more) {
  return isNumber(more) ? (known || 0) + more : known;
}

function addTo(row, kernel) {
  row.ms = plus(row.ms, kernel.total_ms);
  row.flops = plus(row.flops, kernel.flops);
  row.bytes = plus(row.bytes, kernel.bytes);
  row.steps.push(kernel.step);
  for (const node of kernel.nodes || []) row.nodes.add(node);
  row.forms.add(formOf(kernel));
  row.kernels.add(nameOf(kernel));
}

/** Worst first; each with its share of all and the sum of the shares down to it. */
function kernelRows(kernels, by, peaks) {
  const rows = new Map();
  kernels.forEach((kernel, i) => {
    const key = by === 'step' ? String(i) : ROW_KEYS[by](kernel);
    if (!rows.has(key)) {
      rows.set(key, {name: by === 'step' ? nameOf(kernel) : key, type: typeOf(kernel), ops: kernel.name, ms: null, flops: null,
        bytes: null, steps: [], nodes: new Set(), forms: new Set(), kernels: new Set()});
    }
    addTo(rows.get(key), kernel);
  });
  const list = Array.from(rows.values());
  list.sort((a, b) => (b.ms || 0) - (a.ms || 0) || a.steps[0] - b.steps[0]);
  const total = sum(list.map(row => row.ms));
  let before = 0;
  for (const row of list) {
    row.nodeText = Array.from(row.nodes).join(', ');
    row.form = Array.from(row.forms).filter(Boolean).join(', ');
    before += row.ms || 0;
    row.share = row.ms !== null && total > 0 ? row.ms / total : null;
    row.cumulative = row.ms !== null && total > 0 ? before / total : null;
    row.gflops = row.ms > 0 ? row.flops / row.ms / 1e6 : null;
    row.gbs = row.ms > 0 ? row.bytes / row.ms / 1e6 : null;
    row.roof = shareOfRoof(peaks, row);
    row.search = `${row.name} ${row.type} ${row.ops || ''} ${row.nodeText} ${row.steps.map(step => `#${step}`).join(' ')}`.toLowerCase();
  }
  return list;
}

/** Rows added up, for the foot of the table. */
function totalOf(rows) {
  const total = {ms: null, flops: null, bytes: null, share: null};
  for (const row of rows) {
    for (const key of ['ms', 'flops', 'bytes', 'share']) total[key] = plus(total[key], row[key]);
  }
  total.gflops = total.ms > 0 ? total.flops / total.ms / 1e6 : null;
  total.gbs = total.ms > 0 ? total.bytes / total.ms / 1e6 : null;
  return total;
}
