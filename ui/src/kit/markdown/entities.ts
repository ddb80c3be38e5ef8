/** HTML character references in a reply, as characters: text nodes do not read them. */

const NAMED: Readonly<Record<string, string>> = {
  amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', hellip: '…', mdash: '—', ndash: '–',
  copy: '©', deg: '°', times: '×', euro: '€', rarr: '→', larr: '←',
};

/** Replaces those that are known; all others stay as they were written. */
export function decodeEntities(text: string): string {
  return text.replace(/&(?:#(\d{1,6})|#x([0-9a-f]{1,6})|([a-z]{2,6}));/gi, (whole, decimal?: string, hex?: string, name?: string) => {
    if (name !== undefined) return NAMED[name] ?? whole;
    const code = decimal === undefined ? parseInt(hex ?? '', 16) : parseInt(decimal, 10);
    const printable = code >= 0x20 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
    return printable ? String.fromCodePoint(code) : whole;
  });
}
