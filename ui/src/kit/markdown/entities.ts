/** HTML character references in a reply, as characters: text nodes do not read them. */

const known = new Map<string, string>();

/** Replaces those that are known; all others stay as they were written. */
export function decodeEntities(text: string): string {
  return text.replace(/&(?:#(\d{1,6})|#x([0-9a-f]{1,6})|([a-z][a-z0-9]{1,30}));/gi, (whole, decimal?: string, hex?: string, name?: string) => {
    if (name !== undefined) return named(whole);
    const code = decimal === undefined ? parseInt(hex ?? '', 16) : parseInt(decimal, 10);
    const printable = code >= 0x20 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
    return printable ? String.fromCodePoint(code) : whole;
  });
}

/** What the browser's own list of 2,231 names says; it keeps a name that it does not know. */
function named(reference: string): string {
  const before = known.get(reference);
  if (before !== undefined) return before;
  // A text field reads character references and nothing else.
  const field = document.createElement('textarea');
  field.innerHTML = reference;
  if (field.value !== reference) known.set(reference, field.value);
  return field.value;
}
