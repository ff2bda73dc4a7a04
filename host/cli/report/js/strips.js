// What the machine showed of itself while it was sampled: one narrow chart for each kind of figure.

const mean = values => sum(values) / values.length;

/** `shortest`: the ms that a process takes at least for the figure to be told: CPU time is counted in ticks of 10 ms, of which gantry
 * wants 20. */
const STRIPS = [
  {title: 'clock', unit: 'GHz', expected: true, format: v => `${numberText(v)} GHz`, series: [
    {label: 'clock', className: 's0', value: r => (r.clock_mhz && r.clock_mhz.length ? mean(r.clock_mhz) / 1000 : null)},
    {label: 'GPU clock', className: 's1', value: r => (isNumber(r.gpu_clock_mhz) ? r.gpu_clock_mhz / 1000 : null)}]},
  {title: 'temperature', unit: '°C', expected: true, format: v => `${numberText(v)} °C`, series: [
    {label: 'temperature', className: 's0', value: r => r.temperature_celsius},
    {label: 'GPU temperature', className: 's1', value: r => r.gpu_temperature_celsius}]},
  {title: 'power', unit: 'W', expected: true, zero: true, format: v => `${numberText(v)} W`, series: [
    {label: 'power', className: 's0', value: r => r.power_watts},
    {label: 'GPU power', className: 's1', value: r => r.gpu_power_watts}]},
  {title: 'other load', unit: '%', zero: true, full: 100, format: v => `${v.toFixed(1)} %`, steps: true, expected: true, shortest: 200, series: [
    {label: 'other processes', className: 's0', value: r => (isNumber(r.others_share) ? 100 * r.others_share : null)},
    {label: 'hypervisor', className: 's1', value: r => (isNumber(r.steal_share) ? 100 * r.steal_share : null)}]},
  {title: 'pulse of the slowest core', unit: 'times that of quiet cores', pulses: true, format: v => `${numberText(v)} times`, series: [
    {label: 'pulse', className: 's0', value: r => r.pulse}]},
];

function hasSeries(axis, series) {
  return axis.processes.some(entry => [...entry.readings, ...entry.pulses].some(reading => isNumber(series.value(reading))));
}

/** A share "since the reading before" holds for the time between both. */
function stripPoints(entry, series, strip, x, y) {
  const points = [];
  const [readings, times] = strip.pulses ? [entry.pulses, entry.pulseTimes] : [entry.readings, entry.readingTimes];
  readings.forEach((reading, i) => {
    const value = series.value(reading);
    const place = isNumber(value) ? y(value) : null;
    if (strip.steps && i > 0) points.push([x(times[i - 1]), place]);
    if (!strip.steps || i > 0) points.push([x(times[i]), place]);
  });
  return points;
}

function drawStrip(group, strip, axis, width) {
  const frame = plotFrame(width, 84, `${strip.title} over time`, {top: 22, bottom: 8});
  const x = linear(0, axis.end || 1, frame.x0, frame.x1);
  const present = strip.series.filter(series => hasSeries(axis, series));
  const values = axis.processes.flatMap(entry => [...entry.readings, ...entry.pulses].flatMap(reading => present.map(series => series.value(reading))));
  let [low, high] = extent(values);
  if (strip.zero) low = 0;
  if (strip.full) high = Math.min(strip.full, Math.max(high * 1.1, 10));
  const pad = Math.max((high - low) * 0.1, Math.abs(high) * 0.02, 1e-6);
  const y = linear(strip.zero ? 0 : low - pad, strip.full ? high : high + pad, frame.y0, frame.y1);
  const marks = ticks(y.low, y.high, 3);
  frame.svg.append(yAxis(frame, y, marks, tickText(marks)));
  let label = frame.x0;
  const title = textAt(label, 13, `${strip.title}, ${strip.unit}`, {class: 'strip-title'});
  frame.svg.append(title);
  label += (strip.title.length + strip.unit.length + 2) * 6.6 + 14;
  if (present.length > 1) {
    for (const series of present) {
      frame.svg.append(lineFrom(label, 9, label + 14, 9, `series ${series.className}`), textAt(label + 18, 13, series.label, {class: 'small'}));
      label += 30 + series.label.length * 6.2;
    }
  }
  for (const series of present) {
    for (const entry of axis.processes) frame.svg.append(linePath(stripPoints(entry, series, strip, x, y), `series ${series.className}${SIDE_CLASSES[entry.side] || ''}`));
  }
  frame.svg.append(lineFrom(frame.x0, frame.y0, frame.x1, frame.y0, 'edge'));
  group.append(frame.svg);
  return {frame, x};
}

/** The time axis that all charts above it share. */
function timeFooter(axis, width) {
  const frame = plotFrame(width, 42, 'time', {top: 2, bottom: 40});
  const x = linear(0, axis.end / 1000 || 1, frame.x0, frame.x1);
  const marks = ticks(0, axis.end / 1000, Math.max(3, Math.floor(width / 110)));
  frame.svg.append(xAxis(frame, x, marks, tickText(marks), width < 520 ? 'seconds of sampling' : `seconds of sampling; pauses between ${axis.bandName === 'round' ? 'rounds' : 'processes'} are left out`));
  return frame.svg;
}
