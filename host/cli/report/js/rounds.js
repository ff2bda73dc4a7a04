// The rounds of a comparison: the ratio of each, and the samples and the machine of both sides on one time axis.

/** In each round both sides were sampled in turns: their processes lie on each other, at the times that they began. */
function roundAxis(comparison) {
  const axes = results.map(result => timeAxis(result.document));
  const bands = [];
  let at = 0;
  comparison.played.forEach((round, i) => {
    const entries = axes.map(axis => axis.processes[i]);
    // From an axis on which they stand one after another to the time since the first sample of all.
    entries.forEach((entry, side) => shift(entry, round.began_ms[side] - entry.offset));
    const begin = Math.min(...entries.map(entry => entry.begin));
    entries.forEach((entry, side) => {
      shift(entry, at - begin);
      Object.assign(entry, {side, round: i, name: SIDES[side]});
    });
    bands.push({begin: at, end: Math.max(...entries.map(entry => entry.end))});
    at = bands[i].end;
  });
  const gap = at * 0.012;
  bands.forEach((band, i) => {
    band.begin += i * gap;
    band.end += i * gap;
    for (const axis of axes) shift(axis.processes[i], i * gap);
  });
  return {processes: axes.flatMap(axis => axis.processes), bands, bandName: 'round', end: at + gap * Math.max(0, bands.length - 1)};
}

function roundLines(comparison, {index}) {
  const round = comparison.played[index];
  const medians = results.map(({document}, side) => `${SIDES[side]}: median ${timeText(document.processes[index].median_ms, 4)}`);
  return [element('b', {}, `ratio ${round.ratio.toFixed(4)}`), `round ${index + 1}`, ...medians,
    round.counts ? null : 'does not count: others used the cores for too much of it'];
}

/** The ratio of each round, beside that of all and its interval. */
function roundChart(group, comparison, width) {
  const frame = plotFrame(width, 220, 'Ratio of each round', {top: 14});
  const {played, ratio, smallest_effect: effect} = comparison;
  const x = linear(0, played.length, frame.x0, frame.x1);
  const [low, high] = comparison.interval.map(value => Math.max(ratio / 2, Math.min(ratio * 2, value)));
  const [least, most] = extent([...played.map(round => round.ratio), low, high, 1]);
  const pad = (most - least) * 0.08 || 0.01;
  const y = linear(Math.max(0, least - pad), most + pad, frame.y0, frame.y1);
  const within = value => Math.max(frame.y1, Math.min(frame.y0, y(value)));
  const band = (from, to, className) => shape('rect', {x: frame.x0, y: within(to), width: frame.x1 - frame.x0,
    height: Math.max(1, within(from) - within(to)), class: className});
  const values = ticks(y.low, y.high, 5);
  const numbers = ticks(1, Math.max(2, played.length), Math.max(2, Math.floor(width / 60))).filter(value => Number.isInteger(value) && value <= played.length);
  frame.svg.append(yAxis(frame, y, values, tickText(values), 'second over first'), band(1 - effect, 1 + effect, 'same-band'), band(low, high, 'interval'),
    lineFrom(frame.x0, y(1), frame.x1, y(1), 'mark-line'), lineFrom(frame.x0, y(ratio), frame.x1, y(ratio), 'median-line'),
    xAxis(frame, value => x(value - 0.5), numbers, String, 'round'));
  played.forEach((round, i) => frame.svg.append(shape('circle', {cx: x(i + 0.5), cy: y(round.ratio), r: 4.5,
    class: round.counts ? 'round-dot' : 'round-dot left-out', 'data-round': i})));
  group.append(frame.svg);
  crosshair(group, played.map((round, index) => ({time: index + 0.5, index})), [{frame, x}], point => roundLines(comparison, point));
}

/** Both sides' samples in the same bins, as shares: sides need not have equally many. */
function bothHistogram(width) {
  const sorted = results.map(({document}) => allSamples(document).sort((a, b) => a - b));
  const frame = plotFrame(width, 220, 'Distribution of the samples of both', {top: 14});
  const low = Math.min(...sorted.map(list => list[0]));
  const high = Math.max(...sorted.map(fittingLimit));
  const count = Math.max(...sorted.map(list => binCount(list, low, high)));
  const shares = sorted.map(list => histogram(list, low, high, count).map(bin => 100 * bin / list.length));
  const pad = Math.max((high - low) * 0.03, low * 0.002);
  const x = linear(low - pad, high + pad, frame.x0, frame.x1);
  const y = linear(0, Math.max(...shares.flat(), 1), frame.y0, frame.y1);
  const marks = ticks(0, y.high, 4);
  const step = (high - low || 1) / count;
  frame.svg.append(yAxis(frame, y, marks, tickText(marks), '% of its samples'));
  shares.forEach((bins, side) => bins.forEach((share, i) => {
    if (share === 0) return;
    const left = x(low + i * step);
    frame.svg.append(shape('rect', {x: left, y: y(share), width: Math.max(1, x(low + (i + 1) * step) - left - 1), height: frame.y0 - y(share),
      class: `bin${SIDE_CLASSES[side]}`}, shape('title', {}, `${SIDES[side]}: ${numberText(share)} % from ${timeText(low + i * step, 4)} to ${timeText(low + (i + 1) * step, 4)}`)));
  }));
  SIDES.forEach((side, i) => {
    const middle = data.comparison[side].median_ms;
    if (middle >= x.low && middle <= x.high) frame.svg.append(lineFrom(x(middle), frame.y1 - 4, x(middle), frame.y0, `process-median${SIDE_CLASSES[i]}`));
  });
  const [unit, size] = timeUnit(high);
  const values = ticks(x.low / size, x.high / size, Math.max(3, Math.floor(width / 120)));
  frame.svg.append(xAxis(frame, value => x(value * size), values, tickText(values), `time of a run, ${unit}`));
  return frame.svg;
}

function drawRounds(container) {
  const {comparison} = data;
  if (!comparison.played || results.length === 0) {
    container.append(comparison.interleaved
      ? missing('The samples are not in this document; gantry compare --json writes them now.')
      : missing('Samples, machine and kernels are in the two results:', `gantry report ${SIDES.map(side => shellQuoted(comparison[side].name)).join(' ')}`));
    return;
  }
  const rounds = element('div', {class: 'charts', id: 'round-chart', tabindex: '0', 'aria-label': 'Ratio of each round; arrow keys go from one to the next'});
  container.append(legend([['round-dot', 'a round'], ...(comparison.played.every(round => round.counts) ? [] : [['round-dot left-out', 'one that does not count']]),
    ['median-line', 'ratio'], ['interval', 'its interval'], ['same-band', 'smaller than the smallest effect']]), rounds);
  responsive(rounds, width => roundChart(rounds, comparison, width));
  container.append(element('h3', {}, 'Samples of both, and the machine'));
  drawSampleCharts(container, {}, roundAxis(comparison), {id: 'round-samples', label: 'Samples of both over time',
    entries: [['dot', SIDES[0]], ['dot second', SIDES[1]], ['process-median of-first', "median of the first's process"], ['process-median of-second', "of the second's"]]});
  const chart = element('div', {class: 'charts', id: 'round-distribution'});
  container.append(element('h3', {}, 'Distribution'), legend([['bin of-first', SIDES[0]], ['bin of-second', SIDES[1]],
    ['process-median of-first', 'median of the first'], ['process-median of-second', 'of the second']]), chart);
  responsive(chart, width => chart.append(bothHistogram(width)));
}
