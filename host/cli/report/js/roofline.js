// The roofline: what the machine can do at most, and where each kernel is below that.

function rooflineRange(kernels, peaks) {
  const [lowX, highX] = extent(kernels.map(kernel => kernel.flops / kernel.bytes));
  const [lowY, highY] = extent(kernels.map(kernel => kernel.gflops));
  const ridge = peaks ? peaks.gflop_per_s / peaks.gb_per_s : highX;
  return {
    x: [Math.min(lowX, ridge) / 1.8, Math.max(highX, ridge) * 1.8],
    y: [lowY / 2, Math.max(highY, peaks ? peaks.gflop_per_s : 0) * 1.8],
  };
}

/** The slope that a memory's rate gives, up to the peak. */
function roofLine(frame, x, y, rate, peak, className) {
  const ridge = peak / rate;
  const points = [];
  const startX = Math.max(x.low, y.low / rate);
  if (startX < Math.min(ridge, x.high)) points.push([x(startX), y(startX * rate)]);
  if (ridge < x.high) points.push([x(Math.max(ridge, x.low)), y(peak)], [x(x.high), y(peak)]);
  else points.push([x(x.high), y(x.high * rate)]);
  return linePath(points, className);
}

function slopeLabel(x, y, rate, peak, text, at) {
  const value = Math.max(x.low * 1.15, y.low * 1.3 / rate, Math.min(at, peak / rate / 1.3));
  if (value > peak / rate) return null;
  const [px, py] = [x(value), y(value * rate)];
  const angle = Math.atan2(y(value * rate * 10) - py, x(value * 10) - px) * 180 / Math.PI;
  return textAt(px, py - 6, text, {class: 'small', transform: `rotate(${angle.toFixed(1)} ${px} ${py})`});
}

/** GB/s of the slopes, the slower one last. */
function slopes(peaks) {
  const rates = [['memory', peaks.gb_per_s, 'roof']];
  if (isNumber(peaks.cache_gb_per_s) && peaks.cache_gb_per_s > 0) rates.unshift(['cache', peaks.cache_gb_per_s, 'roof cache']);
  return rates;
}

function drawRoofs(frame, x, y, peaks) {
  const group = shape('g', {'aria-hidden': 'true'});
  for (const [, rate, className] of slopes(peaks)) group.append(roofLine(frame, x, y, rate, peaks.gflop_per_s, className));
  return group;
}

/** Over the dots, which would hide them in a narrow chart. */
function labelRoofs(frame, x, y, peaks) {
  const group = shape('g', {'aria-hidden': 'true', class: 'roof-labels'});
  for (const [name, rate] of slopes(peaks)) {
    const label = slopeLabel(x, y, rate, peaks.gflop_per_s, `${name} ${numberText(rate)} GB/s`, 0);
    if (label) group.append(label);
  }
  group.append(textAt(frame.x1 - 4, y(peaks.gflop_per_s) - 6, `peak ${numberText(peaks.gflop_per_s)} GFLOP/s`, {'text-anchor': 'end', class: 'small'}));
  return group;
}

function kernelTip(kernel, peaks) {
  const roof = shareOfRoof(peaks, {ms: kernel.total_ms, flops: kernel.flops, bytes: kernel.bytes});
  return [element('b', {}, `#${kernel.step} ${nameOf(kernel)}`), (kernel.nodes || []).join(', '),
    isNumber(kernel.total_ms) ? `${timeText(kernel.total_ms, 4)}${isNumber(kernel.share) ? `, ${percentText(kernel.share)} of all kernels` : ''}` : null,
    kernel.total_ms > 0 && kernel.flops > 0 ? `${numberText(kernel.flops / kernel.total_ms / 1e6)} GFLOP/s, ${numberText(kernel.bytes / kernel.total_ms / 1e6)} GB/s` : null,
    roof === null ? null : `${percentText(roof, 0)} of the roof`];
}

function rooflineDot(kernel, x, y, document, colours, most) {
  const dot = shape('circle', {cx: x(kernel.flops / kernel.bytes), cy: y(kernel.gflops), r: 3.5 + 9 * Math.sqrt(kernel.total_ms / most),
    class: `roof-dot ${colours.of(typeOf(kernel))}`, 'data-step': kernel.step, tabindex: '-1', role: 'button',
    'aria-label': `${nameOf(kernel)}, ${timeText(kernel.total_ms)}, ${numberText(kernel.gflops)} GFLOP/s`});
  const tell = event => {
    const box = dot.getBoundingClientRect();
    showTip(event.clientX || box.right, event.clientY || box.top, kernelTip(kernel, document.peaks));
  };
  const chosen = () => {
    selectStep(kernel.step, 'roofline');
    const row = window.document.querySelector(`#kernel-table tr[data-step="${kernel.step}"]`);
    if (row) row.scrollIntoView({block: 'center', behavior: 'smooth'});
  };
  for (const event of ['pointermove', 'focus']) dot.addEventListener(event, tell);
  for (const event of ['pointerleave', 'blur']) dot.addEventListener(event, hideTip);
  dot.addEventListener('click', chosen);
  dot.addEventListener('keydown', event => {
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      chosen();
    }
  });
  return dot;
}

/** One dot is reached by Tab, the others from it by arrow keys, from left to right. */
function walkDots(svg) {
  const dots = Array.from(svg.querySelectorAll('.roof-dot')).sort((a, b) => a.cx.baseVal.value - b.cx.baseVal.value);
  if (dots.length > 0) dots[0].setAttribute('tabindex', '0');
  svg.addEventListener('keydown', event => {
    const at = dots.indexOf(event.target);
    const to = dots[at + ({ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key] || NaN)];
    if (at < 0 || !to) return;
    event.preventDefault();
    event.target.setAttribute('tabindex', '-1');
    to.setAttribute('tabindex', '0');
    to.focus();
  });
}

function rooflineChart(document, kernels, colours, width) {
  const {peaks} = document;
  const frame = plotFrame(width, Math.max(300, Math.min(460, width * 0.55)), 'Roofline');
  frame.svg.setAttribute('role', 'group');
  const range = rooflineRange(kernels, peaks);
  const x = logarithmic(...range.x, frame.x0, frame.x1);
  const y = logarithmic(...range.y, frame.y0, frame.y1);
  const format = value => numberText(value, 1);
  frame.svg.append(yAxis(frame, y, logTicks(...range.y), format, 'GFLOP/s'));
  for (const value of logTicks(...range.x)) frame.svg.append(lineFrom(x(value), frame.y0, x(value), frame.y1, 'grid'));
  frame.svg.append(xAxis(frame, x, logTicks(...range.x), format, 'operations a byte of traffic'));
  if (peaks) frame.svg.append(drawRoofs(frame, x, y, peaks));
  const most = extent(kernels.map(kernel => kernel.total_ms))[1] || 1;
  for (const kernel of kernels.slice().sort((a, b) => b.total_ms - a.total_ms)) {
    frame.svg.append(rooflineDot(kernel, x, y, document, colours, most));
  }
  if (peaks) frame.svg.append(labelRoofs(frame, x, y, peaks));
  walkDots(frame.svg);
  return frame.svg;
}

function drawRoofline(container, document) {
  const timed = (document.kernels || []).filter(kernel => kernel.total_ms > 0);
  const kernels = timed.filter(kernel => kernel.flops > 0 && kernel.bytes > 0)
    .map(kernel => Object.assign({gflops: kernel.flops / kernel.total_ms / 1e6}, kernel));
  if (timed.length > 0 && kernels.length === 0) {
    return void container.append(missing('No kernel has operations that are counted: all of them only move data.'));
  }
  if (kernels.length === 0) {
    return void container.append(missing('No kernel was timed. A profile does so:', 'gantry profile MODEL --json RESULT.json'));
  }
  if (!document.peaks) {
    container.append(document.peaks_note ? missing(`There is no roof: ${document.peaks_note}`)
      : missing("The machine's peaks were not measured, so there is no roof. A profile measures them:", 'gantry profile MODEL --json RESULT.json'));
  } else {
    container.append(element('p', {class: 'small'}, `Peaks: ${document.peaks.how || `of ${plural(document.peaks.threads || 1, 'thread')}`}. ` +
      (document.peaks.busy ? `They are too low: while they were measured, ${document.peaks.busy}. ` : '') +
      'The larger a dot, the more time; click one to see its row. Dots above the roof: data from caches, or an algorithm with fewer operations than are counted.'));
  }
  const colours = typeColours(document);
  const chart = element('div', {class: 'charts', id: 'roofline-chart'});
  container.append(typeLegend(colours), chart);
  const mark = step => {
    for (const dot of chart.querySelectorAll('.roof-dot')) dot.classList.toggle('chosen', dot.dataset.step === String(step));
  };
  responsive(chart, width => {
    chart.append(rooflineChart(document, kernels, colours, width));
    mark(shown.step);
  });
  onSelect(mark);
  if (timed.length > kernels.length) {
    container.append(element('p', {class: 'small'}, `Not in the chart: ${plural(timed.length - kernels.length, 'kernel')} without operations.`));
  }
  return undefined;
}
