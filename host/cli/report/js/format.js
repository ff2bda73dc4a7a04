// Figures as people read them.

const isNumber = value => typeof value === 'number' && Number.isFinite(value);

/** Three significant digits without an exponent, thousands apart: 0.0123, 1.23, 12.3, 1,234. */
function numberText(value, digits = 3) {
  if (!isNumber(value)) return '–';
  if (value === 0) return '0';
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  if (magnitude > 14 || magnitude < -9) return value.toExponential(2);
  const decimals = Math.max(0, Math.min(12, digits - 1 - magnitude));
  return value.toLocaleString('en', {minimumFractionDigits: decimals, maximumFractionDigits: decimals});
}

const TIME_UNITS = [['s', 1000], ['ms', 1], ['µs', 1e-3], ['ns', 1e-6]];

function timeUnit(ms) {
  return TIME_UNITS.find(([, size]) => Math.abs(ms) >= size) || TIME_UNITS[3];
}

/** Milliseconds in the unit that fits: "12.3 ms". */
function timeText(ms, digits = 3) {
  if (!isNumber(ms)) return '–';
  const [unit, size] = timeUnit(ms);
  return `${numberText(ms / size, digits)} ${unit}`;
}

function bytesText(bytes) {
  if (!isNumber(bytes)) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (unit < units.length - 1 && Math.abs(bytes) >= 1024) {
    bytes /= 1024;
    ++unit;
  }
  return `${unit === 0 ? bytes.toLocaleString('en') : numberText(bytes)} ${units[unit]}`;
}

/** "1.8 G" */
function countText(value) {
  if (!isNumber(value)) return '–';
  const units = ['', 'k', 'M', 'G', 'T', 'P'];
  let unit = 0;
  while (unit < units.length - 1 && Math.abs(value) >= 1000) {
    value /= 1000;
    ++unit;
  }
  return unit === 0 ? numberText(value, value % 1 ? 3 : 1) : `${numberText(value)} ${units[unit]}`;
}

function percentText(share, decimals = 1) {
  return isNumber(share) ? `${(100 * share).toFixed(decimals)} %` : '–';
}

/** "4.2 %" of a ratio's distance from 1, with its sign. */
function changeText(ratio) {
  if (!isNumber(ratio)) return '–';
  if (ratio >= 2) return `${numberText(ratio)} times`;
  const change = 100 * (ratio - 1);
  return `${change < 0 ? '−' : '+'}${numberText(Math.abs(change), 2)} %`;
}

/** Times that add up: one unit and as many decimals as give the total five digits. */
function clockFor(totalMs) {
  const [unit, size] = timeUnit(totalMs);
  const total = totalMs / size;
  const decimals = total >= 1 ? Math.max(0, 4 - Math.floor(Math.log10(total))) : 4;
  const scale = 10 ** decimals;
  return {
    unit,
    count: ms => Math.round(ms / size * scale),
    text: count => (count / scale).toFixed(decimals),
  };
}

function plural(count, one, many) {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many || one + 's'}`;
}

/** The last part of a path. */
function fileName(path) {
  return String(path).split('/').pop();
}

function quantile(sorted, share) {
  if (sorted.length === 0) return NaN;
  const at = share * (sorted.length - 1);
  const low = Math.floor(at);
  const high = Math.min(low + 1, sorted.length - 1);
  return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

/** Least and greatest; [0, 0] of nothing. No spread arguments: lists may be long. */
function extent(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (!isNumber(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : [0, 0];
}

function sum(values) {
  let total = 0;
  for (const value of values) total += value || 0;
  return total;
}
