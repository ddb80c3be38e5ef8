/**
 * Files of text, and PDFs for their text, in a message: read, checked, and written into the message as fenced code with the
 * file's name, so that models, exports and searching see them as text like any other. Pure but for
 * reading a file.
 */
import { bytes } from '../kit/words';
import { t } from '../strings';
import { PDF_BYTES_MAX, pdfText } from './pdf';

/** A larger file is refused: it would not fit any window of a model here. */
export const FILE_BYTES_MAX = 1_000_000;
/** More files than this are refused. */
export const FILES_MAX = 8;

/** A longer text that is pasted becomes an attachment: a message field lays out all of its text with each key, and
 *  took 9 s for 1 MB. */
export const PASTED_CHARACTERS_MIN = 5_000;
/** A pasted text up to here can be put back into the message. */
export const PUT_BACK_CHARACTERS_MAX = 20_000;
/** More than this is not taken from the clipboard. No model holds it. */
export const PASTED_CHARACTERS_MAX = 10_000_000;

export interface Attachment {
  name: string;
  text: string;
  /** It was pasted, and is in no file. */
  pasted?: true;
}

/** A message of the person in its parts. */
export interface Parts {
  text: string;
  files: Attachment[];
}

const LANGUAGES: Record<string, string> = {
  c: 'c', h: 'c', cpp: 'cpp', cs: 'csharp', css: 'css', go: 'go', html: 'html', java: 'java', js: 'javascript', json: 'json',
  kt: 'kotlin', lua: 'lua', md: 'markdown', php: 'php', py: 'python', rb: 'ruby', rs: 'rust', sh: 'bash', sql: 'sql',
  swift: 'swift', toml: 'toml', ts: 'typescript', xml: 'xml', yaml: 'yaml', yml: 'yaml',
};

/** The file as text, or why it cannot be attached. `pdf`: what PDFs are read in; see `pdf.ts`. */
export async function read(file: File, pdf?: Parameters<typeof pdfText>[1]): Promise<Attachment | { refused: string }> {
  try {
    return await taken(file, pdf);
  } catch (thrown) {
    return { refused: unreadable(file.name, thrown) };
  }
}

/** Why the system did not give a file that was chosen: browsers name it so (File API, section 6.6). */
function unreadable(name: string, thrown: unknown): string {
  const kind = thrown instanceof DOMException ? thrown.name : '';
  if (kind === 'NotFoundError') return t.chat.attachGone(name);
  if (kind === 'NotReadableError' || kind === 'SecurityError') return t.chat.attachNotReadable(name);
  return t.chat.attachFailed(name, thrown instanceof Error ? thrown.message : String(thrown));
}

async function taken(file: File, pdf?: Parameters<typeof pdfText>[1]): Promise<Attachment | { refused: string }> {
  const start = new TextDecoder('latin1').decode(await file.slice(0, 5).arrayBuffer());
  if (start === '%PDF-') return readPdf(file, pdf);
  if (file.size > FILE_BYTES_MAX) return { refused: t.chat.attachTooLarge(file.name, bytes(file.size)) };
  const raw = new Uint8Array(await file.arrayBuffer());
  if (raw.includes(0)) return { refused: t.chat.attachNotText(file.name) };
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(raw).replace(/\r\n?/g, '\n');
    return { name: plainName(file.name), text };
  } catch {
    return { refused: t.chat.attachNotText(file.name) };
  }
}

async function readPdf(file: File, pdf?: Parameters<typeof pdfText>[1]): Promise<Attachment | { refused: string }> {
  if (file.size > PDF_BYTES_MAX) return { refused: t.chat.attachPdfTooLarge(file.name, bytes(file.size)) };
  const outcome = await pdfText(new Uint8Array(await file.arrayBuffer()), pdf);
  if ('none' in outcome) return { refused: t.chat.attachNoText[outcome.none](file.name) };
  if (outcome.text.length > FILE_BYTES_MAX) return { refused: t.chat.attachTooLarge(file.name, bytes(outcome.text.length)) };
  return { name: plainName(file.name), text: outcome.text };
}

/** Whether a pasted text is too long for the message field. */
export function isLong(text: string): boolean {
  return text.length > PASTED_CHARACTERS_MIN;
}

/** A long text that was pasted, with a name that none of `others` has; or why it is not taken. */
export function pasted(text: string, others: readonly Attachment[]): Attachment | { refused: string } {
  if (text.length > PASTED_CHARACTERS_MAX) return { refused: t.chat.pastedTooLarge(bytes(text.length), bytes(PASTED_CHARACTERS_MAX)) };
  const taken = new Set(others.map(({ name }) => name));
  let number = 1;
  while (taken.has(t.chat.pastedName(number))) number += 1;
  return { name: t.chat.pastedName(number), text: text.replace(/\r\n?/g, '\n'), pasted: true };
}

/** A message with its files below it. */
export function join(text: string, files: readonly Attachment[]): string {
  return [text, ...files.map(fenced)].filter((part) => part !== '').join('\n\n');
}

/** Takes the files out of a message again. */
export function split(message: string): Parts {
  const files: Attachment[] = [];
  const text = message.replace(FENCED, (_, _ticks: string, name: string, inner: string) => {
    files.push({ name, text: inner });
    return '';
  });
  return { text: text.trim(), files };
}

const FENCED = /(?:^|\n)(`{3,})[\w+-]* title="([^"\n]+)"\n([^]*?)\n\1(?=\n|$)/g;

function fenced({ name, text }: Attachment): string {
  const longest = (text.match(/`+/g) ?? []).reduce((most, run) => Math.max(most, run.length), 2);
  const fence = '`'.repeat(longest + 1);
  const language = LANGUAGES[name.split('.').at(-1)?.toLowerCase() ?? ''] ?? '';
  return `${fence}${language} title="${name}"\n${text.replace(/\n$/, '')}\n${fence}`;
}

/** A name that does not break the line that it stands in. */
function plainName(name: string): string {
  return name.replace(/["`\p{Cc}]/gu, '').slice(0, 100) || 'text';
}
