// A document of gantry compare: which of two is faster, and how sure that is.

const SIDES = ['first', 'second'];
const meaning = field => description(field, data.comparison_descriptions);

/** [field, label, text] of the figures beside the ratio; what is not known is left out. */
function comparisonFigures(comparison) {
  const {first, second} = comparison;
  const figure = (field, label, value, format) => (isNumber(value) ? [field, label, format(value)] : null);
  return [
    figure('first.median_ms', 'median of the first', first.median_ms, ms => timeText(ms, 4)),
    figure('second.median_ms', 'median of the second', second.median_ms, ms => timeText(ms, 4)),
    figure('smallest_effect', 'smallest effect', comparison.smallest_effect, share => `${numberText(100 * share, 2)} %`),
    figure('rounds', 'rounds', comparison.rounds, String),
    figure('elapsed_s', 'measured for', comparison.elapsed_s, s => timeText(1000 * s)),
  ].filter(Boolean);
}

function ratioFigure(comparison) {
  const [low, high] = comparison.interval;
  const half = (high - low) / 2 / comparison.ratio;
  return element('div', {class: 'median'},
    element('div', {class: 'label'}, term("the second's time over the first's", meaning('ratio'))),
    element('div', {class: 'value', id: 'ratio'}, comparison.ratio.toFixed(4)),
    element('div', {class: 'note', id: 'ratio-interval'}, term(half > 1 ? `${percentText(comparison.confidence, 0)} interval: no better than ±100 %`
      : `${percentText(comparison.confidence, 0)} interval ${low.toFixed(4)} to ${high.toFixed(4)} (±${percentText(half)})`, meaning('interval'))));
}

/** The ratio and its interval between what would be worth a claim on either side of 1. */
function ratioChart(comparison, width) {
  const frame = plotFrame(width, 84, `ratio ${comparison.ratio.toFixed(4)}`, {left: 20, right: 20, top: 10});
  const {ratio, smallest_effect: effect} = comparison;
  const [low, high] = comparison.interval.map(value => Math.max(ratio / 2, Math.min(ratio * 2, value)));
  const [least, most] = extent([low, high, ratio, 1 - effect, 1 + effect]);
  const pad = (most - least) * 0.08;
  const x = linear(least - pad, most + pad, frame.x0, frame.x1);
  const values = ticks(x.low, x.high, Math.max(3, Math.floor(width / 130)));
  const middle = (frame.y0 + frame.y1) / 2;
  frame.svg.append(shape('rect', {x: x(1 - effect), y: frame.y1, width: x(1 + effect) - x(1 - effect), height: frame.y0 - frame.y1, class: 'same-band'}),
    lineFrom(x(1), frame.y1, x(1), frame.y0, 'mark-line'), xAxis(frame, x, values, tickText(values), 'second over first; below 1 the second is faster'),
    lineFrom(x(low), middle, x(high), middle, 'whisker'), shape('circle', {cx: x(ratio), cy: middle, r: 6, class: 'process-dot', id: 'ratio-dot'}));
  return frame.svg;
}

function sidesTable(comparison) {
  const rows = [['name', 'name', String], ['median_ms', 'median', ms => timeText(ms, 4)], ['processes', 'processes', String],
    ['samples', 'samples', count => count.toLocaleString('en')], ['disturbed_share', 'disturbed samples', share => percentText(share)],
    ['board', 'board', String], ['target', 'target', String], ['device', 'device', String], ['precision', 'precision', String],
    ['threads', 'threads', String], ['module_digest', 'digest', digest => digest.slice(0, 16)]];
  const known = value => value !== null && value !== undefined;
  return element('div', {class: 'scroll'}, element('table', {class: 'rows', id: 'sides-table'},
    element('thead', {}, element('tr', {}, ['', ...SIDES].map(head => element('th', {scope: 'col'}, head)))),
    element('tbody', {}, rows.filter(([field]) => SIDES.some(side => known(comparison[side][field]))).map(([field, label, format]) =>
      element('tr', {'data-field': field}, element('th', {scope: 'row'}, term(label, meaning(`first.${field}`))),
        SIDES.map(side => element('td', {'data-side': side}, known(comparison[side][field]) ? format(comparison[side][field]) : '–')))))));
}

/** What the series says that the newest result was added to. */
function historyOf(comparison) {
  const {history} = comparison;
  if (!history) return null;
  const change = entry => element('li', {}, `since ${entry.date} (${entry.label}): ${changeText(entry.ratio)}, ${timeText(entry.before_ms)} → ${timeText(entry.after_ms)}`);
  return element('div', {id: 'history'}, element('h3', {}, term('History', meaning('history'))),
    element('p', {class: 'small'}, `${history.file}: ${plural(history.points, 'result')} of ${history.series}`),
    history.changes.length > 0 ? element('ul', {class: 'small'}, history.changes.map(change)) : element('p', {class: 'small'}, 'No lasting change.'));
}

function limitLine(comparison) {
  if (typeof comparison.failed !== 'boolean') return null;
  return element('p', {class: 'small', id: 'limit'}, term('--fail-if-slower', meaning('failed')), comparison.failed ? ': slower than it allows' : ': kept');
}

function drawComparison(container) {
  const {comparison} = data;
  const chart = element('div', {class: 'charts', id: 'ratio-chart'});
  container.append(
    element('h1', {id: 'compared'}, ...SIDES.flatMap((side, i) => [i ? ' and ' : '', comparison[side].name])),
    element('p', {class: 'subtitle'}, term(comparison.interleaved ? 'measured in turns' : 'two results that were measured apart', meaning('interleaved'))),
    element('div', {class: 'figures'}, ratioFigure(comparison), element('dl', {}, comparisonFigures(comparison).map(([field, label, text]) =>
      element('div', {'data-field': field}, element('dt', {}, term(label, meaning(field))), element('dd', {}, text))))),
    verdictBox(comparison), chart, legend([['process-dot', 'ratio'], ['whisker', 'its interval'], ['same-band', 'smaller than the smallest effect']]), sidesTable(comparison));
  responsive(chart, width => chart.append(ratioChart(comparison, width)));
  for (const part of [limitLine(comparison), historyOf(comparison)]) if (part) container.append(part);
}
