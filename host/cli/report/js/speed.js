// What a result is judged by: the median time of a run; of streams, what all of them do together.

function streamsOf(document) {
  return document.options && document.options.streams || 0;
}

/** In milliseconds, with the interval or null: the time of a run, or of streams that between two results. */
function speedOf(document) {
  if (!streamsOf(document)) {
    return {ms: isNumber(document.median_ms) ? document.median_ms : median(allSamples(document)), interval: document.interval_ms || null};
  }
  const rates = document.runs_per_second_interval;
  return {ms: 1000 / document.runs_per_second, interval: rates ? [1000 / rates[1], 1000 / rates[0]] : null};
}

/** Half the interval's width beside the time; null without an interval. */
function halfWidth({ms, interval}) {
  return interval ? (interval[1] - interval[0]) / 2 / ms : null;
}

/** An interval wider than the time itself says nothing, and its figures would only puzzle. */
function isVague(speed) {
  return halfWidth(speed) > 1;
}

/** "95 % interval 1.0 ms to 1.1 ms (±4.8 %)" */
function intervalText(document) {
  const speed = speedOf(document);
  if (!speed.interval) return 'no interval';
  const confidence = percentText(document.confidence || 0.95, 0);
  if (isVague(speed)) return `${confidence} interval: no better than ±100 %`;
  const [low, high] = streamsOf(document) ? document.runs_per_second_interval.map(rateText) : speed.interval.map(ms => timeText(ms, 4));
  return `${confidence} interval ${low} to ${high} (±${percentText(halfWidth(speed))})`;
}

function rateText(rate) {
  return `${numberText(rate)} /s`;
}
