// What a figure means, or what is under the pointer: one box for the whole page, for mouse, keyboard and touch.

const tip = element('div', {id: 'tip', role: 'tooltip', hidden: true});
document.body.append(tip);

/** Shows lines (strings or nodes) beside a place of the window. */
function showTip(x, y, lines) {
  tip.replaceChildren(...lines.filter(line => line !== null && line !== undefined && line !== '')
    .map(line => (typeof line === 'string' ? element('div', {}, line) : line)));
  tip.hidden = false;
  const width = tip.offsetWidth;
  const height = tip.offsetHeight;
  const right = document.documentElement.clientWidth - width - 8;
  tip.style.left = `${Math.max(8, Math.min(x + 14, right))}px`;
  const below = y + 18 + height < window.innerHeight;
  tip.style.top = `${below ? y + 18 : Math.max(8, y - height - 12)}px`;
}

function hideTip() {
  tip.hidden = true;
}

const description = (path, of = data.descriptions) => (of && of[path]) || '';

/** Gives an element an explanation on hover, focus and tap. */
function withHint(node, text) {
  if (!text) return node;
  node.setAttribute('data-hint', text);
  if (!/^(BUTTON|A|INPUT|SELECT)$/.test(node.tagName)) node.setAttribute('tabindex', '0');
  node.classList.add('hint');
  return node;
}

/** A label that explains itself by the schema's words. */
function term(label, text) {
  return withHint(element('span', {}, label), text);
}

function showHint(node) {
  const box = node.getBoundingClientRect();
  node.setAttribute('aria-describedby', 'tip');
  showTip(box.left - 14, box.bottom - 10, [node.getAttribute('data-hint').replace(/`/g, '')]);
}

let hinted = null;
function leaveHint() {
  if (hinted) {
    hinted.removeAttribute('aria-describedby');
    hideTip();
  }
  hinted = null;
}
function enterHint(event) {
  const node = event.target.closest && event.target.closest('[data-hint]');
  if (!node || node === hinted) return;
  leaveHint();
  hinted = node;
  showHint(node);
}
document.addEventListener('mouseover', enterHint);
document.addEventListener('focusin', enterHint);
document.addEventListener('click', enterHint);
document.addEventListener('mouseout', event => {
  if (hinted && !hinted.contains(event.relatedTarget) && hinted !== document.activeElement) leaveHint();
});
document.addEventListener('focusout', leaveHint);
// Reaching a label by keyboard scrolls to it: its hint goes along.
document.addEventListener('scroll', () => {
  if (hinted && hinted === document.activeElement) showHint(hinted); else leaveHint();
}, {passive: true});
document.addEventListener('keydown', event => {
  if (event.key === 'Escape') {
    leaveHint();
    hideTip();
  }
});
