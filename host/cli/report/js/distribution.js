// How samples are distributed: a histogram, below it every process's median, and the interval that follows from those.

/** Freedman and Diaconis's width: 2 times the interquartile range over the cube root of the number. */
function binCount(sorted, low, high) {
  const spread = quantile(sorted, 0.75) - quantile(sorted, 0.25);
  const wish = 2 * spread / Math.cbrt(sorted.length);
  return Math.max(8, Math.min(60, wish > 0 ? Math.ceil((high - low) / wish) : 8));
}

function histogram(sorted, low, high, count) {
  const bins = new Array(count).fill(0);
  for (const value of sorted) {
    if (value <= high) ++bins[Math.min(count - 1, Math.floor((value - low) / (high - low || 1) * count))];
  }
  return bins;
}

function drawHistogram(document, sorted, width) {
  const processes = document.processes || [];
  const rows = Math.min(processes.length, 12) * 9 + 14;
  const frame = plotFrame(width, 210 + rows, 'Distribution of samples', {bottom: 40 + rows, top: 22});
  const low = sorted[0];
  const high = fittingLimit(sorted);
  const pad = Math.max((high - low) * 0.03, low * 0.002);
  const x = linear(low - pad, high + pad, frame.x0, frame.x1);
  const bins = histogram(sorted, low, high, binCount(sorted, low, high));
  const most = Math.max(...bins, 1);
  const y = linear(0, most, frame.y0, frame.y1);
  const marks = ticks(0, most, 4).filter(Number.isInteger);
  frame.svg.append(yAxis(frame, y, marks, value => String(value), 'samples'));
  const step = (high - low || 1) / bins.length;
  bins.forEach((count, i) => {
    if (count === 0) return;
    const left = x(low + i * step);
    frame.svg.append(shape('rect', {x: left, y: y(count), width: Math.max(1, x(low + (i + 1) * step) - left - 1),
      height: frame.y0 - y(count), class: 'bin'}, shape('title', {},
      `${plural(count, 'sample')} from ${timeText(low + i * step, 4)} to ${timeText(low + (i + 1) * step, 4)}`)));
  });
  const [unit, size] = timeUnit(high);
  const values = ticks(x.low / size, x.high / size, Math.max(3, Math.floor(width / 120)));
  const foot = Object.assign({}, frame, {y0: frame.y0 + rows});
  drawMedians(frame, document, x, rows);
  frame.svg.append(xAxis(foot, value => x(value * size), values, tickText(values), `time of a run, ${unit}`));
  const lines = [['median', document.median_ms], ['p90', document.p90_ms], ['p99', document.p99_ms]]
    .filter(([, ms]) => isNumber(ms) && ms >= x.low && ms <= x.high);
  let free = -Infinity;
  for (const [label, ms] of lines) {
    frame.svg.append(lineFrom(x(ms), frame.y1 - 4, x(ms), frame.y0, label === 'median' ? 'median-line' : 'mark-line'));
    if (x(ms) < free) continue;
    free = x(ms) + label.length * 7 + 8;
    frame.svg.append(textAt(x(ms), frame.y1 - 8, label, {'text-anchor': 'middle', class: 'small'}));
  }
  return frame.svg;
}

function drawMedians(frame, document, x, rows) {
  const top = frame.y0 + 10;
  frame.svg.append(lineFrom(frame.x0, frame.y0, frame.x1, frame.y0, 'edge'));
  if (document.interval_ms) {
    const [a, b] = document.interval_ms.map(ms => Math.max(frame.x0, Math.min(frame.x1, x(ms))));
    frame.svg.append(shape('rect', {x: a, y: frame.y0, width: Math.max(1, b - a), height: rows, class: 'interval'}));
  }
  const all = document.processes || [];
  all.forEach((process, i) => {
    const middle = isNumber(process.median_ms) ? process.median_ms : median(process.samples_ms);
    if (middle > x.high) return;
    frame.svg.append(shape('circle', {cx: x(middle), cy: top + (i % 12) * 9, r: 4, class: 'process-dot'},
      shape('title', {}, `process ${i + 1}: median ${timeText(middle, 4)}, ${plural(process.samples_ms.length, 'sample')}`)));
  });
  frame.svg.append(textAt(frame.x0 - 6, top + 4, all.length > 1 ? 'processes' : 'process', {'text-anchor': 'end', class: 'tiny'}));
}

function drawDistribution(container, document) {
  const sorted = allSamples(document).sort((a, b) => a - b);
  if (sorted.length === 0) return;
  const chart = element('div', {class: 'charts', id: 'distribution-chart'});
  container.append(element('h3', {}, 'Distribution'), legend([['bin', 'samples'], ['process-dot', "a process's median"], ['median-line', 'median'],
    ...(document.interval_ms ? [['interval', 'its interval']] : [])]), chart);
  responsive(chart, width => chart.append(drawHistogram(document, sorted, width)));
  const beyond = sorted.filter(ms => ms > fittingLimit(sorted)).length;
  if (beyond > 0) container.append(element('p', {class: 'small'}, `${plural(beyond, 'sample')} above the chart, to ${timeText(sorted[sorted.length - 1])}.`));
}
