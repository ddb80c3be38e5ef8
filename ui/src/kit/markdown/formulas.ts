/**
 * Formulas of a reply as MathML: the window's rules allow no styles within elements, which KaTeX's other form
 * needs, and a screen reader can read it. KaTeX is fetched when the first formula is shown.
 */
import DOMPurify from 'dompurify';

/** The formula as MathML that nothing but MathML is in, or null where it cannot be laid out. */
export async function laidOut(tex: string, display: boolean): Promise<string | null> {
  const { default: katex } = await import('katex');
  try {
    const html = katex.renderToString(tex, {
      displayMode: display,
      output: 'mathml',
      throwOnError: true,
      // A model's formula is a stranger's text: no links, no pictures, no loops.
      trust: false,
      strict: false,
      maxExpand: 500,
      maxSize: 20,
    });
    return DOMPurify.sanitize(html, { USE_PROFILES: { mathMl: true }, FORBID_ATTR: ['style', 'href'] });
  } catch {
    return null;
  }
}
