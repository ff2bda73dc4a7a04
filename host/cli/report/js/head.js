// The head of a report: what was measured where, the figures, what to take with care, and how to measure again.

/** [field, label, value, note]: what is not known has no value and is left out. */
function headFigures(document) {
  const memory = document.memory || {};
  const machine = document.machine || {};
  const figure = (field, label, value, format, note) =>
    (isNumber(value) ? {field, label, text: format(value), note} : null);
  return [
    streamsOf(document) ? figure('median_ms', 'median latency', document.median_ms, timeText)
      : figure('runs_per_second', 'rate', document.runs_per_second, rateText),
    figure('first_inference_ms', 'first inference', document.first_inference_ms, timeText),
    figure('load_ms', 'load', document.load_ms, timeText),
    figure('min_ms', 'min', document.min_ms, timeText),
    figure('mean_ms', 'mean', document.mean_ms, timeText),
    figure('p90_ms', 'p90', document.p90_ms, timeText),
    figure('p99_ms', 'p99', document.p99_ms, timeText),
    figure('stddev_ms', 'standard deviation', document.stddev_ms, timeText),
    figure('memory.workspace_bytes', 'workspace', memory.workspace_bytes, bytesText),
    figure('memory.weights_bytes', 'weights', memory.weights_bytes, bytesText),
    figure('memory.io_bytes', 'inputs and outputs', memory.io_bytes, bytesText),
    figure('memory.device_workspace_bytes', 'workspace on the GPU', memory.device_workspace_bytes, bytesText),
    figure('memory.device_weights_bytes', 'weights on the GPU', memory.device_weights_bytes, bytesText),
    figure('memory.peak_resident_bytes', 'peak memory', memory.peak_resident_bytes, bytesText),
    figure('machine.clock_mhz_mean', 'clock', machine.clock_mhz_mean, mhz => `${numberText(mhz / 1000)} GHz`),
    figure('machine.temperature_celsius_max', 'hottest', machine.temperature_celsius_max, c => `${numberText(c)} °C`),
    figure('machine.power_watts', 'power', machine.power_watts, watts => `${numberText(watts)} W`),
    figure('machine.energy_joules', 'energy', machine.energy_joules, joules => `${numberText(joules)} J`),
    figure('machine.gpu_power_watts', 'GPU power', machine.gpu_power_watts, watts => `${numberText(watts)} W`),
    figure('machine.others_share', 'other load', machine.others_share, share => percentText(share)),
    figure('machine.disturbed_share', 'disturbed samples', machine.disturbed_share, share => percentText(share)),
    figure('sample_count', 'samples', document.sample_count, count =>
      `${count.toLocaleString('en')} in ${plural((document.processes || []).length, 'process', 'processes')}`),
  ].filter(Boolean);
}

function mainFigure(document) {
  const [label, field, interval, id, text] = streamsOf(document)
    ? ['all streams together', 'runs_per_second', 'runs_per_second_interval', 'throughput', rateText(document.runs_per_second)]
    : ['median time of a run', 'median_ms', 'interval_ms', 'median', timeText(speedOf(document).ms, 4)];
  return element('div', {class: 'median'},
    element('div', {class: 'label'}, term(label, description(field))), element('div', {class: 'value', id}, text),
    element('div', {class: 'note', id: 'interval'}, term(intervalText(document), description(interval))));
}

function warningBox(document) {
  const warnings = document.warnings || [];
  if (warnings.length === 0) {
    return element('p', {class: 'verdict good', id: 'warnings'}, element('b', {}, 'No warnings. '),
      document.reached_goal === false ? 'The precision asked for was not reached.' : 'Nothing spoke against these figures.');
  }
  return element('div', {class: 'verdict care', id: 'warnings'},
    element('b', {}, `Take with care: ${plural(warnings.length, 'warning')}`),
    element('ul', {}, warnings.map(warning => element('li', {}, prose(warning)))));
}

function copyText(text) {
  const area = element('textarea', {class: 'away', readonly: true}, text);
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  return done;
}

function commandLine(words) {
  const text = words.map(shellQuoted).join(' ');
  const copy = button('Copy', () => {
    copy.textContent = copyText(text) ? 'Copied' : 'Select it by hand';
    setTimeout(() => { copy.textContent = 'Copy'; }, 2000);
  }, {class: 'quiet'});
  return element('div', {class: 'command'}, element('code', {id: 'command'}, text), copy);
}

function circumstances(document) {
  const board = document.board || {};
  const row = (field, label, value) =>
    (value === null || value === undefined || value === '' ? null
      : element('tr', {}, element('th', {scope: 'row'}, term(label, description(field))), element('td', {}, String(value))));
  const options = Object.entries(document.options || {}).filter(([, value]) => value !== null && value !== false);
  return element('details', {class: 'more'}, element('summary', {}, 'Machine, inputs, options'),
    element('div', {class: 'scroll'}, element('table', {class: 'facts'}, element('tbody', {},
      row('date', 'date', document.date),
      row('board.hostname', 'host', board.hostname), row('board.system', 'system', board.system),
      row('board.cpu', 'CPU', board.cpu), row('board.llvm_cpu', 'CPU by LLVM', board.llvm_cpu),
      row('board.physical_cores', 'cores', board.physical_cores), row('board.logical_cpus', 'CPUs', board.logical_cpus),
      row('board.memory_bytes', 'memory', isNumber(board.memory_bytes) ? bytesText(board.memory_bytes) : null),
      (board.gpus || []).map(gpu => row('board.gpus', 'GPU', `${gpu.name}, sm_${String(gpu.compute_capability).replace('.', '')}`)),
      (document.machine && document.machine.notes || []).map(note => row('machine.notes', 'note', note)),
      (document.inputs || []).map(input => row('inputs', `input ${input.name}`,
        `${input.dtype} ${input.shape.join('x') || 'scalar'}, ${input.source}`)),
      row('options', 'options', options.map(([name, value]) => `${name} ${value}`).join(', ')),
      row('elapsed_s', 'measured for', isNumber(document.elapsed_s) ? timeText(document.elapsed_s * 1000) : null),
      row('gantry_version', 'gantry', document.gantry_version), row('board.device_version', 'gantry-device', board.device_version),
      row('module_bytes', 'module', isNumber(document.module_bytes) ? bytesText(document.module_bytes) : null),
      row('module_digest', 'digest', document.module_digest)))));
}

function subtitle(document) {
  const board = document.board || {};
  const place = board.name && board.name !== 'local' ? board.name : board.hostname || 'this machine';
  const part = (field, text) => (text ? element('span', {}, term(text, description(field))) : null);
  return element('p', {class: 'subtitle'},
    part('board.name', place), part('board.cpu', board.cpu), part('target', document.target),
    part('device', document.device && document.device !== 'cpu' ? document.device : null),
    part('precision', document.precision), part('threads', document.threads ? plural(document.threads, 'thread') : null),
    part('opt_level', isNumber(document.opt_level) && document.opt_level !== 3 ? `--opt ${document.opt_level}` : null),
    part('optimize', document.optimize === 'size' ? 'for size' : null),
    part('options.cold', document.options && document.options.cold ? 'cold caches' : null),
    part('options.streams', document.options && document.options.streams ? plural(document.options.streams, 'stream') : null));
}

function drawHead(container, document) {
  container.append(
    element('h1', {id: 'title'}, fileName(document.model || 'a model')),
    subtitle(document),
    element('div', {class: 'figures'}, mainFigure(document),
      element('dl', {}, headFigures(document).map(figure => element('div', {'data-field': figure.field},
        element('dt', {}, term(figure.label, description(figure.field))),
        element('dd', {}, figure.text))))),
    warningBox(document));
  if (document.command) {
    container.append(element('p', {class: 'small'}, term('To measure again:', description('command'))), commandLine(document.command));
  }
  container.append(circumstances(document));
}
