// Elements. Text of models and boards becomes text nodes and attribute values, never HTML.

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'on') {
      for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    } else {
      node.setAttribute(name, value === true ? '' : value);
    }
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}

/** element('p', {class: 'x', on: {click: f}}, 'text', other, [more]) */
function element(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
function shape(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** A button that does not send forms. */
function button(label, click, attributes) {
  return element('button', Object.assign({type: 'button', on: {click}}, attributes), label);
}

/** One of several: radio buttons that look like tabs. `choices`: [[value, label], …]. */
function choice(name, label, choices, chosen, changed) {
  const group = element('fieldset', {class: 'choice'}, element('legend', {}, label));
  for (const [value, text] of choices) {
    const input = element('input', {type: 'radio', name, value, on: {change: () => changed(value)}});
    input.checked = value === chosen;
    group.append(element('label', {}, input, element('span', {}, text)));
  }
  return group;
}

function select(label, choices, chosen, changed, attributes) {
  const list = element('select', Object.assign({on: {change: () => changed(list.value)}}, attributes));
  for (const [value, text] of choices) {
    const option = element('option', {value}, text);
    option.selected = String(value) === String(chosen);
    list.append(option);
  }
  return element('label', {class: 'select'}, label, ' ', list);
}

/** What the program says to people, whose `commands` stand in backticks, as nodes; one backtick alone stays. */
function prose(text) {
  return text.split(/`([^`]+)`/).map((part, i) => (i % 2 ? element('code', {}, part) : part));
}

/** What stands in the place of data that a result has not. */
function missing(what, how) {
  return element('p', {class: 'missing'}, what, how ? ' ' : null, how ? element('code', {}, how) : null);
}

/** Calls draw(width) now and whenever the container's width changes. */
function responsive(container, draw) {
  let drawn = 0;
  const redraw = () => {
    const width = Math.floor(container.clientWidth);
    if (width < 50 || width === drawn) return;
    drawn = width;
    container.replaceChildren();
    draw(width);
  };
  new ResizeObserver(redraw).observe(container);
  redraw();
  return () => {
    drawn = 0;
    redraw();
  };
}

/** `work` at most once a frame. */
function onceAFrame(work) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      work();
    });
  };
}

function shellQuoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, `'\\''`)}'`;
}
