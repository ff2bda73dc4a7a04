// Dark or light: as the system has it until the button or the key `t` says otherwise.

const systemTheme = window.matchMedia('(prefers-color-scheme: dark)');
const themeButton = document.getElementById('theme');
const themeListeners = [];

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : systemTheme.matches;
}

function showTheme() {
  themeButton.textContent = isDark() ? 'Light' : 'Dark';
  themeButton.setAttribute('aria-pressed', String(isDark()));
  themeButton.setAttribute('aria-label', isDark() ? 'Switch to light colours' : 'Switch to dark colours');
  for (const listener of themeListeners) listener();
}

function toggleTheme() {
  document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
  showTheme();
}

/** What is drawn on a canvas has to be drawn again. */
function onTheme(listener) {
  themeListeners.push(listener);
}

/** A colour of the style sheet: colour('--ink'). */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Black or white, whichever is read better on a fill, '#rrggbb' (WCAG's relative luminance; of 0.18 both are as good). */
function readableOn(fill) {
  const [red, green, blue] = [1, 3, 5].map(i => (parseInt(fill.slice(i, i + 2), 16) / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? '#10151a' : '#ffffff';
}

themeButton.addEventListener('click', toggleTheme);
systemTheme.addEventListener('change', showTheme);
