// What the page shows, and what of it is chosen.

const data = JSON.parse(document.getElementById('data').textContent);
const results = data.results || [];

/** The result whose figures are shown, and the step that is looked at. */
const shown = {result: 0, step: null};
const selectListeners = [];

function currentDocument() {
  return results.length > 0 ? results[shown.result].document : data.inspection;
}

/** Listeners belong to what is drawn of one result: they go when another is shown. */
function onSelect(listener) {
  selectListeners.push(listener);
}
function forgetListeners() {
  selectListeners.length = 0;
}

/** Every part of the page marks this step of the plan; null: none. */
function selectStep(step, from) {
  if (shown.step === step) return;
  shown.step = step;
  for (const listener of selectListeners) listener(step, from);
}

/** The comparison of two results as `gantry compare` makes it; null: none. */
function comparisonOf(first, second) {
  const found = (data.comparisons || []).find(pair => pair.first === first && pair.second === second);
  return found ? found.comparison : null;
}
