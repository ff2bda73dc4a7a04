// Samples over time, process after process, and below them on the same axis what the machine did meanwhile.

function samplePoints(axis) {
  const points = [];
  axis.processes.forEach((entry, number) => {
    entry.process.samples_ms.forEach((ms, i) => points.push({time: entry.times[i], ms, number, index: i, side: entry.side || 0, disturbed: isDisturbed(entry, entry.times[i])}));
  });
  return points;
}

/** Where a reading found the CPU or GPU held back. */
function throttledTimes(axis) {
  const times = [];
  for (const entry of axis.processes) {
    entry.readings.forEach((reading, i) => {
      const before = i > 0 ? entry.readings[i - 1].throttle_events : reading.throttle_events;
      const counted = isNumber(reading.throttle_events) && reading.throttle_events > before;
      if (reading.throttled || reading.gpu_throttled || counted) times.push(entry.readingTimes[i]);
    });
  }
  return times;
}

/** The longest time, in ms, between the first and the last reading of a process; infinite where none was read twice. */
function longestReading(axis) {
  const times = axis.processes.filter(entry => entry.readings.length > 1).map(entry => entry.readings[entry.readings.length - 1].at_ms - entry.readings[0].at_ms);
  return times.length > 0 ? Math.max(...times) : Infinity;
}

/** Of what belongs to a side of a comparison. */
const SIDE_CLASSES = [' of-first', ' of-second'];

function sampleChart(document, axis, points, width, limit) {
  const frame = plotFrame(width, 260, 'Samples over time', {bottom: 20, top: 24});
  const x = linear(0, axis.end || 1, frame.x0, frame.x1);
  const sorted = points.map(point => point.ms).sort((a, b) => a - b);
  const low = sorted.length ? sorted[0] : 0;
  const pad = Math.max((limit - low) * 0.06, low * 0.002, 1e-9);
  const y = linear(Math.max(0, low - pad), limit + pad, frame.y0, frame.y1);
  const [unit, size] = timeUnit(limit || 1);
  const values = ticks(y.low / size, y.high / size, 5);
  const format = tickText(values);
  frame.svg.append(yAxis(frame, value => y(value * size), values, format, `time of a run, ${unit}`));
  axis.bands.forEach((entry, i) => {
    const band = shape('rect', {x: x(entry.begin), y: frame.y1, width: Math.max(1, x(entry.end) - x(entry.begin)),
      height: frame.y0 - frame.y1, class: i % 2 ? 'band odd' : 'band'});
    frame.svg.append(band);
    if (x(entry.end) - x(entry.begin) > 24) {
      frame.svg.append(textAt((x(entry.begin) + x(entry.end)) / 2, frame.y1 - 8,
        axis.bands.length < 9 && x(entry.end) - x(entry.begin) > 74 ? `${axis.bandName} ${i + 1}` : String(i + 1), {'text-anchor': 'middle', class: 'small'}));
    }
  });
  if (document.interval_ms) {
    const [a, b] = document.interval_ms.map(y);
    const top = Math.max(frame.y1, b);
    frame.svg.append(shape('rect', {x: frame.x0, y: top, width: frame.x1 - frame.x0,
      height: Math.max(1, Math.min(frame.y0, a) - top), class: 'interval'}));
  }
  if (isNumber(document.median_ms)) frame.svg.append(lineFrom(frame.x0, y(document.median_ms), frame.x1, y(document.median_ms), 'median-line'));
  const within = points.filter(point => point.ms <= limit);
  for (const [side, disturbed] of [[0, false], [1, false], [0, true], [1, true]]) {
    const dots = within.filter(point => point.side === side && point.disturbed === disturbed).map(point => [x(point.time), y(point.ms)]);
    const kind = (points.length > 3000 ? ' fine' : '') + (side ? ' second' : '') + (disturbed ? ' disturbed' : '');
    if (dots.length > 0) frame.svg.append(dotPath(dots, `dots${kind}`));
  }
  for (const entry of axis.processes) {
    const middle = y(isNumber(entry.process.median_ms) ? entry.process.median_ms : median(entry.process.samples_ms));
    if (middle >= frame.y1) frame.svg.append(lineFrom(x(entry.begin), middle, x(entry.end), middle, `process-median${SIDE_CLASSES[entry.side] || ''}`));
  }
  for (const point of points.filter(point => point.ms > limit).slice(0, 2000)) {
    const at = x(point.time);
    frame.svg.append(shape('path', {d: `M${at - 3.5} ${frame.y1 + 6}L${at} ${frame.y1}L${at + 3.5} ${frame.y1 + 6}Z`, class: 'beyond'}));
  }
  for (const time of throttledTimes(axis)) frame.svg.append(lineFrom(x(time), frame.y1, x(time), frame.y0, 'throttled'));
  frame.svg.append(lineFrom(frame.x0, frame.y0, frame.x1, frame.y0, 'edge'));
  return {frame, x};
}

function sampleLines(axis, point) {
  const entry = axis.processes[point.number];
  let nearest = null;
  entry.readingTimes.forEach((time, i) => {
    if (nearest === null || Math.abs(time - point.time) < Math.abs(entry.readingTimes[nearest] - point.time)) nearest = i;
  });
  const lines = [element('b', {}, timeText(point.ms, 4)),
    entry.side === undefined ? `process ${point.number + 1}, sample ${point.index + 1}`
      : `${entry.name}: round ${entry.round + 1}, sample ${point.index + 1}`, point.disturbed ? 'disturbed: others used the cores' : null, `${numberText((point.time - entry.begin) / 1000)} s after its first`];
  if (nearest === null) return lines;
  for (const strip of STRIPS) {
    for (const series of strip.series) {
      const value = strip.pulses ? null : series.value(entry.readings[nearest]);
      if (isNumber(value)) lines.push(`${series.label}: ${strip.format(value)}`);
    }
  }
  return lines;
}

/** A line through all charts of the group at the nearest point, by mouse, touch or arrow keys. `linesOf`: what is said of a point. */
function crosshair(group, points, parts, linesOf) {
  const ordered = points.slice().sort((a, b) => a.time - b.time);
  const lines = parts.map(part => {
    const line = lineFrom(0, part.frame.y1, 0, part.frame.y0, 'cross');
    line.setAttribute('visibility', 'hidden');
    part.frame.svg.append(line);
    return line;
  });
  let at = -1;
  const show = (index, clientY) => {
    at = Math.max(0, Math.min(ordered.length - 1, index));
    const point = ordered[at];
    const x = parts[0].x(point.time);
    for (const line of lines) {
      line.setAttribute('x1', x);
      line.setAttribute('x2', x);
      line.setAttribute('visibility', 'visible');
    }
    const box = parts[0].frame.svg.getBoundingClientRect();
    showTip(box.left + x, clientY, linesOf(point));
  };
  const hide = () => {
    for (const line of lines) line.setAttribute('visibility', 'hidden');
    hideTip();
  };
  const nearest = clientX => {
    const time = parts[0].x.invert(clientX - parts[0].frame.svg.getBoundingClientRect().left);
    let low = 0;
    let high = ordered.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ordered[middle].time < time) low = middle + 1; else high = middle;
    }
    return low > 0 && time - ordered[low - 1].time < ordered[low].time - time ? low - 1 : low;
  };
  if (ordered.length === 0) return;
  group.addEventListener('pointermove', event => show(nearest(event.clientX), event.clientY));
  group.addEventListener('pointerleave', hide);
  group.addEventListener('blur', hide);
  group.addEventListener('keydown', event => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step) return;
    event.preventDefault();
    show(at + step, parts[0].frame.svg.getBoundingClientRect().top + 40);
  });
}

/** Samples and below them the machine, on one axis, into `container`. `document`: whose median and interval are drawn, {} for none. */
function drawSampleCharts(container, document, axis, {id, label, entries}) {
  const points = samplePoints(axis);
  if (points.length === 0) return void container.append(missing('The result has no samples.'));
  const sorted = points.map(point => point.ms).sort((a, b) => a - b);
  const fitting = fittingLimit(sorted);
  const greatest = sorted[sorted.length - 1];
  let whole = fitting === greatest;
  const group = element('div', {class: 'charts', id, tabindex: '0', 'aria-label': `${label}; arrow keys go from one to the next`});
  const redraw = responsive(group, width => {
    const parts = [sampleChart(document, axis, points, width, whole ? greatest : fitting)];
    group.append(parts[0].frame.svg);
    const strips = STRIPS.filter(strip => strip.series.some(series => hasSeries(axis, series)));
    strips.forEach(strip => parts.push(drawStrip(group, strip, axis, width)));
    group.append(timeFooter(axis, width));
    crosshair(group, points, parts, point => sampleLines(axis, point));
  });
  const beyond = sorted.filter(ms => ms > fitting).length;
  if (beyond > 0) {
    const box = element('input', {type: 'checkbox', on: {change: () => { whole = box.checked; redraw(); }}});
    container.append(element('label', {class: 'check'}, box, ` show the whole range: ${plural(beyond, 'sample')} ` +
      `(to ${timeText(greatest)}) ${beyond === 1 ? 'lies' : 'lie'} above the chart (▲)`));
  }
  if (points.some(point => point.disturbed)) entries.splice(entries.findIndex(([name]) => name === 'process-median'), 0, ['disturbed', 'a disturbed sample']);
  if (document.interval_ms) entries.push(['interval', 'its interval']);
  if (throttledTimes(axis).length > 0) entries.push(['throttled', 'held back by heat, power or a cap']);
  container.append(legend(entries), group);
  const absent = STRIPS.filter(strip => strip.expected && !strip.series.some(series => hasSeries(axis, series)));
  const unknown = absent.filter(strip => longestReading(axis) < strip.shortest);
  const hidden = absent.filter(strip => !unknown.includes(strip));
  const titles = strips => strips.map(strip => strip.title).join(', ');
  if (hidden.length > 0) container.append(missing(`Not shown by this machine: ${titles(hidden)}.`));
  if (unknown.length > 0) container.append(missing(`Not known, since every process was sampled for less than ${timeText(unknown[0].shortest)}: ${titles(unknown)}.`));
}

function drawSamples(container, document) {
  drawSampleCharts(container, document, timeAxis(document), {id: 'sample-charts', label: 'Samples over time',
    entries: [['dot', 'a sample'], ['process-median', "a process's median"], ['median-line', 'median']]});
}
