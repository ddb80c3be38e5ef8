/** A reply as the words that are read of it, without signs of Markdown. Pure. */
import type { MarkedToken, Token, Tokens } from 'marked';
import { decodeEntities } from './entities';
import { type Footnote, type Formula, type Note, tokensOf } from './extensions';
import { withoutMarks } from './marks';
import { shallow } from './shallow';

/** Stands between two blocks: no words go on over it. */
export const BREAK = '\u0000';

/** The words of a reply in order. A formula has none: it is drawn. */
export function plain(markdown: string): string {
  try {
    return tokensOf(shallow(markdown.replace(/\r\n?/g, '\n'))).map(block).filter((words) => words !== '').join(BREAK);
  } catch {
    // What the lexer cannot read is shown as it was written.
    return markdown;
  }
}

/** A table as programs for tables take it: a tab between two cells, a line for each row. Formulas as they were written. */
export function tabSeparated({ header, rows }: Pick<Tokens.Table, 'header' | 'rows'>): string {
  const words = ({ tokens }: Tokens.TableCell) => withoutMarks(inline(tokens, ({ tex }) => tex)).replace(/[\s\0]+/g, ' ').trim();
  return [header, ...rows].map((row) => row.map(words).join('\t')).join('\n');
}

function block(token: Token): string {
  // The lexer knows its extensions, so the generic token does not occur.
  const given = token as MarkedToken | Formula | Note;
  switch (given.type) {
    case 'list': return given.items.map((item) => item.tokens.map(block).join(BREAK)).join(BREAK);
    case 'blockquote': return given.tokens.map(block).join(BREAK);
    case 'table': return [given.header, ...given.rows].flat().map((cell) => inline(cell.tokens)).join(BREAK);
    case 'code': return given.text;
    case 'html': return given.raw.trim();
    case 'paragraph': case 'heading': case 'note': return inline(given.tokens);
    case 'text': return inline(given.tokens ?? [given]);
    default: return '';
  }
}

function inline(tokens: readonly Token[], drawn: (formula: Formula) => string = () => BREAK): string {
  return tokens.map((token) => {
    const given = token as MarkedToken | Formula | Footnote;
    switch (given.type) {
      case 'text': return given.tokens ? inline(given.tokens, drawn) : decodeEntities(given.text);
      case 'escape': return decodeEntities(given.text);
      case 'strong': case 'em': case 'del': case 'link': return inline(given.tokens, drawn);
      case 'codespan': return given.text;
      case 'html': return /^<br\s*\/?>$/i.test(given.text) ? BREAK : decodeEntities(given.text);
      case 'br': return BREAK;
      case 'formula': return drawn(given);
      case 'footnote': return given.label;
      default: return '';
    }
  }).join('');
}
