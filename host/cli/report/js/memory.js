// The planned memory: every value as long as it lives (steps) and where it lies (offsets), with the least that any plan would need.

/** Of values in the host's or a GPU's memory: [{title, values, bytes, bound}]. */
function memoryMaps(program) {
  const placed = program.values.filter(value => value.kind === 'workspace' && isNumber(value.offset) && isNumber(value.bytes) && isNumber(value.first_step));
  const maps = [{title: 'workspace', values: placed.filter(value => value.memory !== 'gpu'), bytes: program.workspace_bytes, bound: program.workspace_bound_bytes}];
  const gpu = placed.filter(value => value.memory === 'gpu');
  if (gpu.length > 0) maps.push({title: "workspace in the GPU's memory", values: gpu, bytes: program.gpu_workspace_bytes, bound: program.gpu_workspace_bound_bytes});
  return maps.filter(map => map.values.length > 0);
}

/** Which step writes each value, and so which node's it is. */
function writersOf(program) {
  const writers = new Map();
  for (const step of program.steps) {
    for (const id of step.writes || []) if (!writers.has(id)) writers.set(id, step);
  }
  return writers;
}

class MemoryMap {
  constructor(container, document, map, writers) {
    this.map = map;
    this.writers = writers;
    this.colours = typeColours(document);
    this.steps = document.program.steps.length;
    this.top = Math.max(map.bytes || 0, map.bound || 0, extent(map.values.map(value => value.offset + value.bytes))[1]);
    this.box = element('div', {class: 'charts memory-map', tabindex: '0', 'aria-label': `Memory map: ${map.title}; + and - zoom, arrow keys move`});
    this.transform = d3.zoomIdentity;
    this.redraw = onceAFrame(() => this.draw());
    this.zoom = zoomable(this.box, {most: 200, axis: 'x', extent: () => [this.width || 800, 360],
      zoomed: transform => { this.transform = transform; this.box.dataset.zoom = transform.k.toFixed(3); this.redraw(); }});
    container.append(this.summary(), this.zoom.controls, this.box);
    responsive(this.box, width => { this.width = width; this.zoom.bound(); this.draw(); });
    onSelect(() => this.mark());
  }

  summary() {
    const {bytes, bound, title, values} = this.map;
    const over = isNumber(bytes) && bound > 0 ? ` (${percentText(bytes / bound - 1)} above it)` : '';
    return element('p', {class: 'memory-summary'}, `${title}: `, element('b', {}, isNumber(bytes) ? bytesText(bytes) : 'size not known'), ' planned',
      isNumber(bound) ? [', ', term(`${bytesText(bound)} at least`, 'the largest sum of what lives at once: no plan of these steps needs less'), over] : null,
      `; ${plural(values.length, 'value')}.`);
  }

  draw() {
    const frame = plotFrame(this.width, 380, `Memory map: ${this.map.title}`, {left: 74});
    const base = linear(0, this.steps, frame.x0, frame.x1);
    const {k, x: shift} = this.transform;
    const x = value => base(value) * k + shift;
    const y = linear(0, this.top * 1.03, frame.y0, frame.y1);
    this.axes(frame, base, x, y, k, shift);
    const clip = shape('svg', {x: frame.x0, y: 0, width: frame.x1 - frame.x0, height: frame.height, viewBox: `${frame.x0} 0 ${frame.x1 - frame.x0} ${frame.height}`});
    for (const value of this.map.values) {
      const [from, to] = [x(value.first_step), x((value.last_step === null ? value.first_step : value.last_step) + 1)];
      if (to < frame.x0 || from > frame.x1) continue;
      clip.append(this.rectangle(value, from, to, y));
    }
    frame.svg.append(clip);
    this.limit(frame, y, this.map.bound, 'bound', 'least possible', this.map.bytes > this.map.bound * 1.06 || !this.map.bytes);
    this.limit(frame, y, this.map.bytes, 'planned', this.map.bytes === this.map.bound ? 'planned, the least possible' : 'planned', true);
    this.box.replaceChildren(frame.svg);
    this.mark();
  }

  axes(frame, base, x, y, k, shift) {
    const [unit, size] = this.top >= 1 << 20 ? ['MiB', 1 << 20] : this.top >= 1024 ? ['KiB', 1024] : ['B', 1];
    const values = ticks(0, this.top / size, 5);
    frame.svg.append(yAxis(frame, value => y(value * size), values, tickText(values), `offset, ${unit}`));
    const invert = place => base.invert((place - shift) / k);
    const steps = ticks(Math.max(0, invert(frame.x0)), Math.min(this.steps, invert(frame.x1)), Math.max(3, this.width / 90)).filter(value => Number.isInteger(value) && value < this.steps);
    frame.svg.append(xAxis(frame, x, steps, value => `#${value}`, 'step of the plan'));
  }

  rectangle(value, from, to, y) {
    const writer = this.writers.get(value.id);
    const rectangle = shape('rect', {x: from, y: y(value.offset + value.bytes), width: Math.max(0.8, to - from - 0.6),
      height: Math.max(1, y(value.offset) - y(value.offset + value.bytes)), class: `lifetime ${writer ? this.colours.of(typeOf(writer)) : 'cx'}`, 'data-value': value.id});
    rectangle.addEventListener('pointermove', event => showTip(event.clientX, event.clientY, this.lines(value, writer)));
    rectangle.addEventListener('pointerleave', hideTip);
    rectangle.addEventListener('click', () => { if (writer) selectStep(writer.step, 'memory'); });
    return rectangle;
  }

  lines(value, writer) {
    return [element('b', {}, value.name || `value ${value.id}`), writer && writer.nodes.length > 0 ? `of ${writer.nodes.join(', ')}` : null,
      `${value.type || 'type not known'}, ${bytesText(value.bytes)}`, `at ${value.offset.toLocaleString('en')} to ${(value.offset + value.bytes).toLocaleString('en')}`,
      `lives from step #${value.first_step} to #${value.last_step}`, writer ? `written by ${nameOf(writer)}` : null];
  }

  limit(frame, y, bytes, className, label, labelled) {
    if (!isNumber(bytes) || bytes <= 0) return;
    frame.svg.append(lineFrom(frame.x0, y(bytes), frame.x1, y(bytes), `limit ${className}`));
    if (labelled) frame.svg.append(textAt(frame.x1 - 4, y(bytes) - 4, `${label} ${bytesText(bytes)}`, {'text-anchor': 'end', class: 'small'}));
  }

  mark() {
    for (const rectangle of this.box.querySelectorAll('.lifetime')) {
      const writer = this.writers.get(Number(rectangle.dataset.value));
      rectangle.classList.toggle('chosen', Boolean(writer) && writer.step === shown.step);
    }
  }
}

function drawMemory(container, document) {
  const {program} = document;
  if (!program) {
    return void container.append(missing('The plan is not in the result. A profile of this version has it:', 'gantry profile MODEL --json RESULT.json'));
  }
  const maps = memoryMaps(program);
  if (maps.length === 0) {
    return void container.append(missing(program.workspace_bytes === null
      ? 'The plan depends on dimensions that are not known: --shape fixes them.' : 'Nothing lies in planned memory.'));
  }
  container.append(typeLegend(typeColours(document)));
  const writers = writersOf(program);
  for (const map of maps) new MemoryMap(container, document, map, writers);
  return undefined;
}
