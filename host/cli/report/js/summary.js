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
  const speed = speedOf(document);
  const comparison = index > 0 ? comparisonOf(0, index) : null;
  const verdict = index === 0 ? 'the first' : comparison && comparison.problem ? 'not compared' : comparison ? `${changeText(comparison.ratio)}: ${comparison.verdict}` : '';
  return element('tr', {}, element('th', {scope: 'row'}, result.file), element('td', {}, fileName(document.model || '')),
    element('td', {}, board.name && board.name !== 'local' ? board.name : board.hostname || ''),
    element('td', {}, [document.target, document.precision, document.threads ? plural(document.threads, 'thread') : null].filter(Boolean).join(', ')),
    element('td', {class: 'number'}, timeText(speed.ms, 4)),
    element('td', {class: 'number'}, !speed.interval ? '–' : isVague(speed) ? 'over ±100 %' : `${timeText(speed.interval[0])} – ${timeText(speed.interval[1])}`),
    element('td', {}, verdict), element('td', {}, document.date || ''));
}

function drawSummary(container) {
  const time = results.some(({document}) => streamsOf(document)) ? 'time between two results' : 'median';
  const heads = [['result'], ['model', 'model'], ['board', 'board.name'], ['target, precision', 'target'], [time, 'median_ms', true],
    ['interval', 'interval_ms', true], ['beside the first', null], ['date', 'date']];
  container.append(element('div', {class: 'scroll'}, element('table', {class: 'rows', id: 'summary-table'},
    element('thead', {}, element('tr', {}, heads.map(([label, field, number]) => element('th', {scope: 'col', class: number ? 'number' : ''}, field ? term(label, description(field)) : label)))),
    element('tbody', {}, results.map(summaryRow)))));
  const timed = results.filter(result => isNumber(speedOf(result.document).ms)).map(({file, document}) => ({name: file, document}));
  const chart = element('div', {class: 'charts'});
  container.append(chart);
  responsive(chart, width => chart.append(intervalChart(timed, width)));
}
