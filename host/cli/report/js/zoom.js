// Zooming and panning by d3-zoom: buttons, drag, pinch, keys, and the wheel once a chart has been clicked, so that scrolling the page does
// not stop at a chart.

/**
 * `node` takes the events, `zoomed(transform)` draws. `axis`: 'x' zooms along time alone, and leaves vertical drags of a finger to the
 * page. Returns {controls, to(transform), reset(), transform()}.
 */
function zoomable(node, {most, least = 1, axis, extent: area, zoomed}) {
  const chosen = d3.select(node);
  const behaviour = d3.zoom().scaleExtent([least, most])
    .filter(() => {
      const {event} = d3;
      if (event.type === 'wheel') return event.ctrlKey || node === document.activeElement || node.contains(document.activeElement);
      return !event.button;
    })
    .on('zoom', () => zoomed(d3.event.transform));
  const bound = () => {
    const [width, height] = area();
    behaviour.extent([[0, 0], [width, height]]);
    if (axis === 'x') behaviour.translateExtent([[0, -Infinity], [width, Infinity]]);
  };
  bound();
  chosen.call(behaviour).on('dblclick.zoom', null);
  node.style.touchAction = axis === 'x' ? 'pan-y' : 'none';
  node.addEventListener('pointerdown', () => node.focus({preventScroll: true}));
  const scale = factor => chosen.call(behaviour.scaleBy, factor);
  const reset = () => chosen.call(behaviour.transform, d3.zoomIdentity);
  const to = transform => chosen.call(behaviour.transform, transform);
  const pan = (dx, dy) => chosen.call(behaviour.translateBy, dx / current().k, dy / current().k);
  const current = () => d3.zoomTransform(node);
  node.addEventListener('keydown', event => {
    if (event.target !== node || event.ctrlKey || event.metaKey) return;
    const moves = {'+': () => scale(1.5), '=': () => scale(1.5), '-': () => scale(1 / 1.5), 0: reset, ArrowLeft: () => pan(60, 0),
      ArrowRight: () => pan(-60, 0), ArrowUp: axis === 'x' ? null : () => pan(0, 60), ArrowDown: axis === 'x' ? null : () => pan(0, -60)};
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  });
  const controls = element('div', {class: 'zoom'},
    button('+', () => scale(1.7), {'aria-label': 'Zoom in', class: 'quiet'}),
    button('−', () => scale(1 / 1.7), {'aria-label': 'Zoom out', class: 'quiet'}),
    button('Reset', () => zoomable.custom.get(node) ? zoomable.custom.get(node)() : reset(), {class: 'quiet'}));
  return {controls, to, reset, bound, current};
}
/** Charts whose Reset is another view than the first. */
zoomable.custom = new WeakMap();
