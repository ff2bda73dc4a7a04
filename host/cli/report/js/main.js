// The page: its sections in their order, each where its data are.

const SECTIONS = [
  {id: 'head', title: 'Result', draw: drawHead, plain: true},
  {id: 'samples', title: 'Samples', draw: (container, document) => {
    drawSamples(container, document);
    drawDistribution(container, document);
  }, only: () => results.length > 0},
  {id: 'kernels', title: 'Kernels', draw: drawKernels},
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
    part.section.draw(part.body, currentDocument());
  } catch (error) {
    console.error(error);
    part.body.append(missing(`This part could not be drawn: ${error.message}`));
  }
  part.node.dataset.drawn = 'true';
}

/** What costs time is drawn when it comes near the window. */
const nearby = new IntersectionObserver(entries => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    nearby.unobserve(entry.target);
    drawInto(entry.target.part);
  }
}, {rootMargin: '300px'});

let parts = [];
function drawSections() {
  forgetListeners();
  shown.step = null;
  parts = SECTIONS.filter(section => !section.only || section.only()).map(sectionFor);
  const main = document.getElementById('main');
  main.replaceChildren(...parts.map(part => part.node));
  document.getElementById('nav').replaceChildren(...parts.map(part => element('a', {href: `#${part.section.id}`}, part.section.title)));
  for (const part of parts) {
    part.node.part = part;
    if (part.section.later) nearby.observe(part.node); else drawInto(part);
  }
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

document.title = `${fileName(currentDocument().model || currentDocument().file || 'gantry')} – gantry report`;
document.getElementById('made').textContent = `Made by gantry ${data.gantry_version}. One file; it asks the network for nothing.`;
showTheme();
drawSections();
document.documentElement.dataset.ready = 'true';
