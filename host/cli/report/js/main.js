// The page: its sections in their order, each where its data are.

/** Of a file that has not run there is a plan only where gantry can compile it. */
const hasPlan = () => (data.inspection ? Boolean(data.inspection.program) : timesKernels());
/** A comparison times runs alone. */
const timesKernels = () => results.length > 0 && !data.comparison;

const SECTIONS = [
  {id: 'summary', title: 'All results', draw: drawSummary, only: () => results.length > 2},
  {id: 'differences', title: 'Differences', draw: drawDifferences, only: () => results.length > 1 && !data.comparison},
  {id: 'comparison', title: 'Comparison', draw: drawComparison, plain: true, only: () => Boolean(data.comparison)},
  {id: 'rounds', title: 'Rounds', draw: drawRounds, only: () => Boolean(data.comparison)},
  {id: 'head', title: 'Result', draw: (container, document) => {
    if (results.length > 1) container.append(resultPicker(drawSections));
    (results.length > 0 ? drawHead : drawInspection)(container, document);
  }, plain: true, only: () => results.length > 0 || Boolean(data.inspection)},
  {id: 'samples', title: 'Samples', draw: (container, document) => {
    drawSamples(container, document);
    drawDistribution(container, document);
  }, only: () => results.length > 0},
  {id: 'kernels', title: 'Kernels', draw: drawKernels, only: hasPlan},
  {id: 'roofline', title: 'Roofline', draw: drawRoofline, only: timesKernels},
  {id: 'timeline', title: 'Timeline', draw: drawTimeline, only: timesKernels},
  {id: 'memory', title: 'Memory', draw: drawMemory, only: hasPlan},
  {id: 'graph', title: 'Graph', draw: drawGraph, prepare: prepareGraph, later: true, only: hasPlan},
];

function sectionFor(section) {
  const heading = element('h2', {}, section.title);
  const body = element('div', {class: 'body'});
  return {section, body, node: element('section', {id: section.id, 'aria-label': section.title}, section.plain ? null : heading, body)};
}

/** One part that cannot be drawn leaves the others alone. */
function drawInto(part) {
  part.body.replaceChildren();
  try {
    part.section.draw(part.body, currentDocument(), part.prepared);
  } catch (error) {
    console.error(error);
    part.body.append(missing(`This part could not be drawn: ${error.message}`));
  }
  part.node.dataset.drawn = 'true';
}

/** Begins what is computed beside the page; where that fails, drawing tells. */
function prepare(part) {
  try {
    part.prepared = part.section.prepare(currentDocument());
  } catch (error) {
    part.prepared = undefined;
  }
}

/** What costs time is drawn when it comes near the window. */
const nearby = new IntersectionObserver(entries => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    nearby.unobserve(entry.target);
    drawInto(parts.find(part => part.node === entry.target));
  }
}, {rootMargin: '300px'});

let parts = [];
function drawSections() {
  forgetListeners();
  nearby.disconnect();
  delete document.documentElement.dataset.ready;
  shown.step = null;
  for (const part of parts) if (part.prepared) part.prepared.stop();
  parts = SECTIONS.filter(section => !section.only || section.only()).map(sectionFor);
  const main = document.getElementById('main');
  main.replaceChildren(...parts.map(part => part.node));
  document.getElementById('nav').replaceChildren(...parts.map(part => element('a', {href: `#${part.section.id}`}, part.section.title)));
  for (const part of parts) if (part.section.prepare) prepare(part);
  drawNext(parts.slice());
}

/** Each part in a turn of its own, so that what is at the top can be read while the rest is drawn. */
function drawNext(waiting) {
  const part = waiting.shift();
  if (!part) return void finish();
  if (!parts.includes(part)) return undefined;  // another result is being drawn by now
  if (part.section.later) nearby.observe(part.node); else drawInto(part);
  return void setTimeout(() => drawNext(waiting));
}

function finish() {
  document.documentElement.dataset.ready = 'true';
  performance.mark('drawn');
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target) target.scrollIntoView();
}

document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const search = document.getElementById('kernel-search');
  if (event.key === '/' && search) {
    event.preventDefault();
    search.scrollIntoView({block: 'center'});
    search.focus({preventScroll: true});
  } else if (event.key === 't') {
    toggleTheme();
  }
});

const subject = data.comparison ? `${data.comparison.first.name} and ${data.comparison.second.name}`
  : results.length > 1 ? plural(results.length, 'result') : fileName(currentDocument().model || currentDocument().file || 'gantry');
document.title = `${subject} – gantry report`;
document.getElementById('made').textContent = `Made by gantry ${data.gantry_version}. One file; it asks the network for nothing.`;
showTheme();
drawSections();
