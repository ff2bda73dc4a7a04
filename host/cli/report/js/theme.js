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

themeButton.addEventListener('click', toggleTheme);
systemTheme.addEventListener('change', showTheme);
