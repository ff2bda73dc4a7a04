// Of more than one result: all of them in a table, and which one the rest of the page shows.

function resultPicker(redraw) {
  return element('div', {class: 'controls', id: 'picker'}, select('Shown below:', results.map((result, i) => [i, result.file]), shown.result, value => {
    shown.result = Number(value);
    redraw();
  }, {id: 'shown-result'}));
}

function summaryRow(result, index) {
  const {document} = result;
  const board = document.board || {};
  const comparison = index > 0 ? comparisonOf(0, index) : null;
  const verdict = index === 0 ? 'the first' : comparison && comparison.problem ? 'not compared' : comparison ? `${changeText(comparison.ratio)}: ${comparison.verdict}` : '';
  return element('tr', {}, element('th', {scope: 'row'}, result.file), element('td', {}, fileName(document.model || '')),
    element('td', {}, board.name && board.name !== 'local' ? board.name : board.hostname || ''),
    element('td', {}, [document.target, document.precision, document.threads ? plural(document.threads, 'thread') : null].filter(Boolean).join(', ')),
    element('td', {class: 'number'}, timeText(isNumber(document.median_ms) ? document.median_ms : median(allSamples(document)), 4)),
    element('td', {class: 'number'}, document.interval_ms ? `${timeText(document.interval_ms[0])} – ${timeText(document.interval_ms[1])}` : '–'),
    element('td', {}, verdict), element('td', {}, document.date || ''));
}

function drawSummary(container) {
  const heads = [['result'], ['model', 'model'], ['board', 'board.name'], ['target, precision', 'target'], ['median', 'median_ms', true],
    ['interval', 'interval_ms', true], ['beside the first', null], ['date', 'date']];
  container.append(element('div', {class: 'scroll'}, element('table', {class: 'rows', id: 'summary-table'},
    element('thead', {}, element('tr', {}, heads.map(([label, field, number]) => element('th', {scope: 'col', class: number ? 'number' : ''}, field ? term(label, description(field)) : label)))),
    element('tbody', {}, results.map(summaryRow)))));
  const timed = results.filter(result => isNumber(result.document.median_ms)).map(({file, document}) => ({name: file, document}));
  const chart = element('div', {class: 'charts'});
  container.append(chart);
  responsive(chart, width => chart.append(intervalChart(timed, width)));
}
