// The frame of a chart: an SVG as wide as its container, axes with units, a grid.

const MARGIN = {left: 58, right: 14, top: 12, bottom: 38};

/** An empty chart; x0, x1, y0 (bottom) and y1 (top) are the edges of its inside. */
function plotFrame(width, height, label, margin) {
  const m = Object.assign({}, MARGIN, margin);
  const svg = shape('svg', {class: 'plot', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label});
  return {svg, width, height, x0: m.left, x1: width - m.right, y0: height - m.bottom, y1: m.top};
}

function textAt(x, y, text, attributes) {
  return shape('text', Object.assign({x, y}, attributes), text);
}

function lineFrom(x1, y1, x2, y2, className) {
  return shape('line', {x1, y1, x2, y2, class: className});
}

/** The horizontal axis below the chart. `format`: of a tick's value. */
function xAxis(frame, scale, values, format, title) {
  const group = shape('g', {class: 'axis', 'aria-hidden': 'true'});
  group.append(lineFrom(frame.x0, frame.y0, frame.x1, frame.y0, 'edge'));
  let free = -Infinity;
  for (const value of values) {
    const x = scale(value);
    if (x < frame.x0 - 1 || x > frame.x1 + 1) continue;
    group.append(lineFrom(x, frame.y0, x, frame.y0 + 4, 'edge'));
    const text = format(value);
    const half = text.length * 3.4;
    if (x - half < free) continue;
    free = x + half + 6;
    group.append(textAt(Math.min(x, frame.width - half), frame.y0 + 16, text, {'text-anchor': 'middle'}));
  }
  if (title) group.append(textAt((frame.x0 + frame.x1) / 2, frame.y0 + 32, title, {'text-anchor': 'middle', class: 'title'}));
  return group;
}

/** The vertical axis with a grid; its title stands above it. */
function yAxis(frame, scale, values, format, title) {
  const group = shape('g', {class: 'axis', 'aria-hidden': 'true'});
  for (const value of values) {
    const y = scale(value);
    if (y > frame.y0 + 1 || y < frame.y1 - 1) continue;
    group.append(lineFrom(frame.x0, y, frame.x1, y, 'grid'));
    group.append(textAt(frame.x0 - 6, y + 3.5, format(value), {'text-anchor': 'end'}));
  }
  if (title) {
    group.append(textAt(12, (frame.y0 + frame.y1) / 2, title,
      {'text-anchor': 'middle', class: 'title', transform: `rotate(-90 12 ${(frame.y0 + frame.y1) / 2})`}));
  }
  return group;
}

/** Dots as one path: thousands cost what one does. `points`: [[x, y], …]. */
function dotPath(points, className) {
  let path = '';
  for (const [x, y] of points) path += `M${x.toFixed(1)} ${y.toFixed(1)}h0`;
  return shape('path', {d: path, class: className});
}

/** A polyline; gaps where y is not a number. */
function linePath(points, className) {
  let path = '';
  let drawing = false;
  for (const [x, y] of points) {
    if (!isNumber(y)) {
      drawing = false;
      continue;
    }
    path += `${drawing ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`;
    drawing = true;
  }
  return shape('path', {d: path, class: className});
}

/** The names of what is drawn. `entries`: [[class of a sample, text], …]. */
function legend(entries) {
  return element('p', {class: 'legend'},
    entries.map(([className, text]) => element('span', {}, element('i', {class: className}), text)));
}
