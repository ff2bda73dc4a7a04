// What several parts of the page derive from a result.

/** Kernels of a document: as they were timed, else the plan's steps without times. */
function kernelsOf(document) {
  if (document.kernels && document.kernels.length > 0) return document.kernels;
  const steps = document.program ? document.program.steps : [];
  return steps.map(step => Object.assign({total_ms: null, share: null, calls: null}, step));
}

/** Of its ops the one that a kernel is for; old boards do not say. */
function typeOf(kernel) {
  return kernel.op || String(kernel.name || 'copy').split(/[[+]/)[0];
}
function nameOf(kernel) {
  return kernel.symbol || kernel.name || 'copy';
}
/** "winograd4" of "nn.conv[winograd4]+add" */
function formOf(kernel) {
  return Array.from(String(kernel.name || '').matchAll(/\[([^\]]*)\]/g), match => match[1]).join('+');
}

/** A colour class for each type of op, the costliest first; those behind the seventh share one. */
function typeColours(document) {
  const cost = new Map();
  for (const kernel of kernelsOf(document)) {
    const type = typeOf(kernel);
    cost.set(type, (cost.get(type) || 0) + (kernel.total_ms || kernel.flops || 1));
  }
  const types = Array.from(cost).sort((a, b) => b[1] - a[1]).map(([type]) => type);
  const classes = new Map(types.map((type, i) => [type, i < 7 ? `c${i}` : 'cx']));
  return {types, of: type => classes.get(type) || 'cx'};
}

function typeLegend(colours) {
  const entries = colours.types.slice(0, 7).map((type, i) => [`c${i}`, type]);
  if (colours.types.length > 7) entries.push(['cx', plural(colours.types.length - 7, 'other type')]);
  return legend(entries);
}

/** GFLOP/s that the machine could reach at that many operations a byte; null: its peaks are not known. */
function roofAt(peaks, intensity) {
  if (!peaks || !isNumber(peaks.gflop_per_s) || !isNumber(peaks.gb_per_s)) return null;
  return Math.min(peaks.gflop_per_s, intensity * peaks.gb_per_s);
}

/** What share of the least time that the machine's peaks allow a kernel's time is; null: not known. */
function shareOfRoof(peaks, row) {
  if (!peaks || !(row.ms > 0)) return null;
  const compute = peaks.gflop_per_s > 0 ? row.flops / peaks.gflop_per_s / 1e6 : 0;
  const traffic = peaks.gb_per_s > 0 ? row.bytes / peaks.gb_per_s / 1e6 : 0;
  const least = Math.max(compute, traffic);
  return least > 0 ? least / row.ms : null;
}

/** Kernel of a step, step of the plan: by number. */
function byStep(list) {
  return new Map((list || []).map(entry => [entry.step, entry]));
}

/** Moves all that a process has on a time axis. */
function shift(entry, by) {
  for (const key of ['begin', 'end', 'offset']) entry[key] += by;
  for (const key of ['times', 'readingTimes', 'pulseTimes']) entry[key] = entry[key].map(time => time + by);
}

/** The values of processes on one time axis, one process after another; times in ms. `bands`: what the axis is divided into. */
function timeAxis(document) {
  const quiet = document.machine && document.machine.undisturbed_pulse;
  const processes = [];
  let offset = 0;
  for (const process of document.processes || []) {
    const started = startsOf(process);
    const readings = process.readings || [];
    const pulses = process.pulses || [];
    const [low, high] = extent([...started, ...readings.map(reading => reading.at_ms), ...pulses.map(([at]) => at), 0]);
    const last = process.samples_ms.length > 0 ? process.samples_ms[process.samples_ms.length - 1] : 0;
    processes.push({
      process, readings, offset: offset - low, begin: offset, end: offset + (high - low) + last,
      times: started.map(at => at - low + offset),
      readingTimes: readings.map(reading => reading.at_ms - low + offset),
      pulses: pulses.map(([, level]) => ({pulse: level / (quiet || 1)})), pulseTimes: pulses.map(([at]) => at - low + offset),
    });
    offset += high - low + last;
  }
  const gap = offset * 0.012;
  processes.forEach((entry, i) => shift(entry, i * gap));
  return {processes, bands: processes, bandName: 'process', end: offset + gap * Math.max(0, processes.length - 1)};
}

/** Whether a sample was taken while something outside of the machine's sight used its cores: the pulse before or after it is more than
 * 10 % higher than that of quiet cores. */
function isDisturbed(entry, time) {
  let before = null;
  let after = null;
  entry.pulseTimes.forEach((at, i) => {
    if (at <= time) before = entry.pulses[i].pulse;
    else if (after === null) after = entry.pulses[i].pulse;
  });
  return before > 1.1 || after > 1.1;
}

/** When each sample began; of old results one after another. */
function startsOf(process) {
  if (process.started_ms && process.started_ms.length === process.samples_ms.length) return process.started_ms;
  const runs = process.runs_per_sample || 1;
  let at = 0;
  return process.samples_ms.map(ms => {
    const began = at;
    at += ms * runs;
    return began;
  });
}

function allSamples(document) {
  return (document.processes || []).flatMap(process => process.samples_ms);
}

function median(values) {
  return quantile(values.slice().sort((a, b) => a - b), 0.5);
}

/** A greatest value to draw so that few slow samples do not flatten all others. */
function fittingLimit(sorted) {
  if (sorted.length === 0) return 1;
  const greatest = sorted[sorted.length - 1];
  const middle = quantile(sorted, 0.5);
  const usual = quantile(sorted, 0.95);
  const limit = middle + 2.5 * Math.max(usual - middle, 0.02 * middle);
  return greatest > limit * 1.15 ? limit : greatest;
}
