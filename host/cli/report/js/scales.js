// From figures to places and back.

function linear(low, high, from, to) {
  const span = high - low || 1;
  const scale = value => from + (value - low) / span * (to - from);
  scale.invert = place => low + (place - from) / (to - from || 1) * span;
  scale.low = low;
  scale.high = high;
  return scale;
}

function logarithmic(low, high, from, to) {
  const a = Math.log10(low);
  const b = Math.log10(high);
  const scale = value => from + (Math.log10(value) - a) / (b - a || 1) * (to - from);
  scale.low = low;
  scale.high = high;
  return scale;
}

/** Round figures in [low, high], some `count` of them and two at least: steps of 1, 2 or 5 times a power of ten. */
function ticks(low, high, count) {
  const span = high - low;
  // Below that, adding a step to a figure would not change it.
  const least = 1e-12 * Math.max(Math.abs(low), Math.abs(high));
  if (!(span > least) || !Number.isFinite(span)) return [low];
  let found = [];
  // One figure alone shows no scale.
  for (let wanted = Math.max(1, count), finest = 8 * wanted; found.length < 2 && wanted <= finest; wanted *= 2) {
    found = roundFigures(low, high, span / wanted);
  }
  return found;
}

function roundFigures(low, high, rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(factor => factor * power >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) found.push(i * step || 0);
  return found;
}

/** As many decimals as tell neighbouring ticks apart. */
function tickText(values) {
  const step = values.length > 1 ? Math.abs(values[1] - values[0]) : Math.abs(values[0]) || 1;
  const decimals = Math.max(0, Math.min(9, -Math.floor(Math.log10(step) + 1e-9)));
  return value => value.toLocaleString('en', {minimumFractionDigits: decimals, maximumFractionDigits: decimals});
}

/** 0.1, 1, 10, …; where there are few also 2 and 5 times these. */
function logTicks(low, high) {
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  const factors = last - first <= 2 ? [1, 2, 5] : [1];
  const found = [];
  for (let power = first; power <= last; ++power) {
    for (const factor of factors) {
      const value = factor * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  }
  return found;
}
