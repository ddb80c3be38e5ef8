/**
 * Where the parts of a reply stand among its marks. A part knows the marks in it; which one came last
 * before it is found here, once, when the part comes out of the lexer.
 */
import type { MarkedToken, Token } from 'marked';
import { marksIn } from './marks';

const before = new WeakMap<object, number>();

/** Notes the place of `tokens` and of all inside them; `last` is the number of the mark before them, -1 for
 *  none. Returns the number of the last mark in them, or `last`. */
export function place(tokens: readonly Token[], last: number): number {
  let latest = last;
  for (const token of tokens) {
    const inside = marksIn(token.raw).at(-1);
    // Without a mark before it and in it, a part needs no note: -1 is what is found then.
    if (latest < 0 && inside === undefined) continue;
    before.set(token, latest);
    partsOf(token as MarkedToken).reduce((at, part) => place(part, at), latest);
    // Not what the parts say: some of the text, such as the target of a link, is in none of them.
    latest = inside ?? latest;
  }
  return latest;
}

/** The number of the last mark before a part, -1 for none. */
export function markBefore(token: Token): number {
  return before.get(token) ?? -1;
}

/** What lies inside a token, in the order of the text; a formula has nothing. */
function partsOf(token: MarkedToken): Token[][] {
  switch (token.type) {
    case 'table':
      return [...token.header, ...token.rows.flat()].map((cell) => cell.tokens);
    case 'list':
      return token.items.map((item) => item.tokens);
    default:
      return 'tokens' in token && token.tokens ? [token.tokens] : [];
  }
}
