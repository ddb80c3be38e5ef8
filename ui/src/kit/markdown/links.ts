/** Which links of a reply may be opened at all: https, and nothing with a name and password inside. */

/** The address in full, or null where it must stay plain text. */
export function openable(href: string): string | null {
  if (!URL.canParse(href)) return null;
  const url = new URL(href);
  const plain = url.protocol === 'https:' && url.username === '' && url.password === '';
  return plain ? url.href : null;
}
