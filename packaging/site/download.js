// Offers the file that fits, from the list of versions that lies beside this page. The list is the one that installed
// programs read; its signature is checked by them, not here.

const SYSTEMS = [
  { name: 'Windows', of: /windows/i, kinds: ['windows-x86_64-nsis'] },
  { name: 'macOS', of: /mac/i, kinds: ['macos-aarch64-dmg', 'macos-x86_64-dmg'] },
  { name: 'Linux', of: /linux|x11|bsd/i, kinds: ['linux-x86_64-deb', 'linux-x86_64-rpm', 'linux-x86_64-portable'] },
];
const WORDS = {
  nsis: 'Windows 10 and 11', dmg: 'macOS', deb: 'Debian, Ubuntu, Mint', rpm: 'Fedora, openSUSE',
  portable: 'every Linux, without root', zip: 'Windows, to unpack yourself',
};

const byId = (id) => document.getElementById(id);
const wordsFor = (platform) => WORDS[platform.split('-').at(-1)] ?? platform;
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

/** Names of files are text of a list: only a plain name becomes an address. */
const address = (file) => `./${encodeURIComponent(file)}`;

/** An element with text in it. */
function element(name, text, classes) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  if (classes) made.className = classes;
  return made;
}

/** One button, first for the system that asks. */
function button(system, packages, isFirst) {
  const found = packages.filter((one) => system.kinds.includes(one.platform));
  if (found.length === 0) {
    const none = element('div', '', 'button none');
    none.append(element('strong', system.name), element('span', 'not made yet'));
    return [none];
  }
  return found.map((one, at) => {
    const link = element('a', '', isFirst && at === 0 ? 'button first' : 'button');
    link.href = address(one.file);
    link.append(element('strong', system.name), element('span', `${wordsFor(one.platform)}, ${megabytes(one.bytes)}`));
    return link;
  });
}

function row(one) {
  const made = element('tr');
  const file = element('td');
  const link = element('a', one.file);
  link.href = address(one.file);
  file.append(link);
  made.append(file, element('td', wordsFor(one.platform)), element('td', megabytes(one.bytes)), element('td', one.sha256));
  return made;
}

function show({ version, packages }) {
  const here = navigator.userAgentData?.platform || navigator.userAgent;
  const mine = SYSTEMS.findIndex((system) => system.of.test(here));
  const order = [...SYSTEMS.slice(Math.max(mine, 0)), ...SYSTEMS.slice(0, Math.max(mine, 0))];
  byId('state').textContent = `Version ${version}.`;
  byId('buttons').append(...order.flatMap((system) => button(system, packages, system === SYSTEMS[mine])));
  byId('rows').append(...packages.map(row));
  byId('files').hidden = false;
}

try {
  const answer = await fetch('inglenook-versions.json', { cache: 'no-cache' });
  if (!answer.ok) throw new Error(String(answer.status));
  show(await answer.json());
} catch {
  byId('state').textContent = 'No release has been made yet. Until then Inglenook can be built from its source.';
}
