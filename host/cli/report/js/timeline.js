// One run on its threads: a row for the steps, and one for each thread with the parts that it computed.

class Timeline {
  constructor(container, document) {
    this.document = document;
    const {timeline} = document;
    this.steps = timeline.steps;
    this.kernels = byStep(kernelsOf(document));
    this.colours = typeColours(document);
    this.rows = [{name: 'steps'}, ...timeline.threads];
    this.rowHeight = Math.max(12, Math.min(26, 440 / this.rows.length));
    this.spans = this.rows.map(() => []);
    for (const step of this.steps) this.spans[0].push([step.step, step.begin_us, step.end_us]);
    for (const [thread, step, begin, end] of timeline.spans) {
      if (this.spans[thread + 1]) this.spans[thread + 1].push([step, begin, end]);
    }
    for (const row of this.spans) row.sort((a, b) => a[1] - b[1]);
    this.end = Math.max(timeline.run_ms * 1000 || 0, extent(this.spans.flat().map(span => span[2]))[1], 1e-3);
    this.left = Math.min(110, 14 + 6.6 * extent(this.rows.map(row => this.rowName(row).length))[1]);
    this.canvas = element('canvas', {id: 'timeline-canvas', tabindex: '0', role: 'img',
      'aria-label': 'Timeline of a run; + and - zoom, arrow keys move, Enter goes to the step in the middle'});
    this.box = element('div', {class: 'charts timeline'});
    this.zoom = zoomable(this.canvas, {most: 20000, axis: 'x', extent: () => [this.width || 800, this.height()],
      zoomed: transform => { this.transform = transform; this.canvas.dataset.zoom = transform.k.toFixed(3); this.draw(); }});
    this.transform = d3.zoomIdentity;
    this.draw = onceAFrame(() => this.paint());
    container.append(element('div', {class: 'controls'}, this.zoom.controls, this.busyText()), typeLegend(this.colours), this.box);
    responsive(this.box, width => this.resize(width));
    onTheme(() => this.draw());
    onSelect((step, from) => { if (from === 'details') this.show(step); this.draw(); });
    this.canvas.addEventListener('pointermove', event => this.hover(event));
    this.canvas.addEventListener('pointerleave', hideTip);
    this.canvas.addEventListener('click', event => this.choose(this.at(event.offsetX, event.offsetY)));
    this.canvas.addEventListener('keydown', event => {
      if (event.key === 'Enter') this.choose(this.at((this.left + this.width) / 2, this.rowHeight / 2));
    });
  }

  rowName(row) {
    return isNumber(row.cpu) ? `${row.name} (CPU ${row.cpu})` : row.name;
  }
  height() {
    return this.rows.length * this.rowHeight + 44;
  }

  /** How much of the run each thread computed. */
  busyText() {
    const shares = this.spans.slice(1).map(row => sum(row.map(([, begin, end]) => end - begin)) / this.end);
    if (shares.length === 0) return element('span', {class: 'small'}, `a run of ${timeText(this.end / 1000, 4)}`);
    const [low, high] = extent(shares);
    const text = shares.length === 1 ? percentText(low, 0) : `${percentText(low, 0)} to ${percentText(high, 0)}`;
    return element('span', {class: 'small', id: 'timeline-busy'}, `a run of ${timeText(this.end / 1000, 4)}; threads compute in ${text} of it`);
  }

  resize(width) {
    this.width = width;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = this.height() * ratio;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.height()}px`;
    this.box.append(this.canvas);
    this.zoom.bound();
    this.draw();
  }

  /** Time in µs to a place, under the zoom. */
  scale() {
    const base = linear(0, this.end, this.left, this.width - 10);
    const {k, x} = this.transform;
    const place = time => base(time) * k + x;
    place.invert = at => base.invert((at - x) / k);
    return place;
  }

  paint() {
    if (!this.width) return;
    const ratio = window.devicePixelRatio || 1;
    const context = this.canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height());
    context.font = '11.5px system-ui, sans-serif';
    context.textBaseline = 'middle';
    const x = this.scale();
    const colours = {ink: colour('--ink'), soft: colour('--soft'), grid: colour('--grid'), ground: colour('--ground'), line: colour('--line')};
    for (const name of ['0', '1', '2', '3', '4', '5', '6', 'x']) colours[`c${name}`] = colour(`--k${name}`);
    this.paintAxis(context, x, colours);
    context.save();
    context.beginPath();
    context.rect(this.left, 0, this.width - this.left, this.height());
    context.clip();
    this.spans.forEach((spans, row) => this.paintRow(context, x, spans, row, colours));
    context.restore();
    context.fillStyle = colours.soft;
    context.textAlign = 'right';
    this.rows.forEach((row, i) => context.fillText(this.rowName(row), this.left - 8, (i + 0.5) * this.rowHeight + 2, this.left - 12));
  }

  paintAxis(context, x, colours) {
    const bottom = this.rows.length * this.rowHeight + 4;
    const [low, high] = [x.invert(this.left), x.invert(this.width - 10)];
    const [unit, size] = timeUnit(Math.max(Math.abs(high), high - low) / 1000);
    const values = ticks(low / 1000 / size, high / 1000 / size, Math.max(3, this.width / 130));
    const format = tickText(values);
    context.textAlign = 'center';
    for (const value of values) {
      const place = x(value * 1000 * size);
      if (place < this.left - 1) continue;
      context.fillStyle = colours.grid;
      context.fillRect(place, 0, 1, bottom);
      context.fillStyle = colours.soft;
      context.fillText(format(value), Math.min(place, this.width - 18), bottom + 12);
    }
    context.fillStyle = colours.ink;
    context.fillText(`time since the run began, ${unit}`, (this.left + this.width) / 2, bottom + 30);
  }

  paintRow(context, x, spans, row, colours) {
    const top = row * this.rowHeight + 2;
    const height = this.rowHeight - 3;
    let painted = -Infinity;
    for (const [step, begin, end] of spans) {
      const from = Math.max(x(begin), this.left - 5);
      const to = Math.min(x(end), this.width + 5);
      if (to < this.left || from > this.width || (to - from < 0.5 && to <= painted)) continue;
      const kernel = this.kernels.get(step);
      const width = Math.max(to - from - (to - from > 3 ? 0.7 : 0), 0.7);
      context.fillStyle = colours[kernel ? this.colours.of(typeOf(kernel)) : 'cx'];
      const faded = shown.step !== null && shown.step !== step;
      context.globalAlpha = faded ? 0.38 : 1;
      context.fillRect(from, top, width, height);
      context.globalAlpha = 1;
      painted = from + width;
      if (width > 34 && height > 11) this.paintLabel(context, kernel ? nameOf(kernel) : `#${step}`, from, top + height / 2, width, faded);
    }
  }

  paintLabel(context, text, left, middle, width, faded) {
    const fits = Math.floor((width - 8) / 6.1);
    if (fits < 3) return;
    context.fillStyle = faded ? colour('--ink') : readableOn(context.fillStyle);
    context.textAlign = 'left';
    context.fillText(text.length > fits ? `${text.slice(0, fits - 1)}…` : text, left + 4, middle + 0.5);
  }

  /** [step, begin, end] at a place of the canvas. */
  at(offsetX, offsetY) {
    const row = Math.floor((offsetY - 1) / this.rowHeight);
    if (!this.spans[row] || offsetX < this.left) return null;
    const x = this.scale();
    const reach = (x.invert(2) - x.invert(0));
    const time = x.invert(offsetX);
    const found = this.spans[row].filter(([, begin, end]) => time >= begin - reach / 2 && time <= end + reach / 2);
    found.sort((a, b) => Math.abs(a[1] + a[2] - 2 * time) - Math.abs(b[1] + b[2] - 2 * time));
    return found.length > 0 ? {row, span: found[0]} : null;
  }

  hover(event) {
    const found = this.at(event.offsetX, event.offsetY);
    this.canvas.style.cursor = found ? 'pointer' : 'grab';
    if (!found) return hideTip();
    const [step, begin, end] = found.span;
    const kernel = this.kernels.get(step);
    return showTip(event.clientX, event.clientY, [element('b', {}, kernel ? `#${step} ${nameOf(kernel)}` : `step #${step}`),
      kernel ? (kernel.nodes || []).join(', ') : null, `${this.rowName(this.rows[found.row])}: ${timeText((end - begin) / 1000, 4)}`,
      `from ${timeText(begin / 1000, 5)} to ${timeText(end / 1000, 5)}`]);
  }

  choose(found) {
    if (found) selectStep(found.span[0], 'timeline');
  }

  /** Brings a step into view. */
  show(number) {
    const step = this.steps.find(entry => entry.step === number);
    if (!step || !this.width) return;
    const base = linear(0, this.end, this.left, this.width - 10);
    const k = Math.max(1, Math.min(20000, 0.5 * (this.width - this.left) / Math.max(base(step.end_us) - base(step.begin_us), 1e-3)));
    const middle = base((step.begin_us + step.end_us) / 2);
    this.zoom.to(d3.zoomIdentity.translate((this.left + this.width) / 2 - middle * k, 0).scale(k));
  }
}

function drawTimeline(container, document) {
  const {timeline} = document;
  if (!timeline || !timeline.steps || timeline.steps.length === 0) {
    return void container.append(missing('No run was timed on its threads. A profile does so:', 'gantry profile MODEL --json RESULT.json'));
  }
  return void new Timeline(container, document);
}
