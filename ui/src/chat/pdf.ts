/**
 * The text of a PDF. pdf.js reads it, loaded when the first PDF is attached, in a worker of its own: what
 * a damaged or hostile file does there, it does to nobody else, and a worker that takes too long ends.
 *
 * Only text comes out. A page that is a picture of text has none, and the person is told so.
 */
import type * as library from 'pdfjs-dist';
import type { PDFPageProxy, PDFWorker } from 'pdfjs-dist';
import type { TextContent } from 'pdfjs-dist/types/src/display/api';

/** A larger file is refused: hardly any PDF of text is. */
export const PDF_BYTES_MAX = 25_000_000;
/** With more pages it is refused; what would fit a model's window has far fewer. */
const PAGES_MAX = 1000;
/** Longest that reading may take. */
const READ_MS_MAX = 30_000;

export type Pdfjs = typeof library;

/** Why there is no text. */
export type NoText = 'encrypted' | 'scanned' | 'damaged' | 'slow' | 'long';

/** The worker that pdf.js reads in, and how it is ended whatever it does. */
export interface Reader {
  worker: PDFWorker;
  end: () => void;
}

/** The text of all pages, or why there is none. `start` makes the worker; tests have none in a page. */
export async function pdfText(
  bytes: Uint8Array, start: (pdfjs: Pdfjs) => Promise<Reader> | Reader = inWorker,
): Promise<{ text: string } | { none: NoText }> {
  const pdfjs = await import('pdfjs-dist/legacy/build/pdf.mjs');
  const reader = await start(pdfjs);
  let alarm: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<{ none: NoText }>((done) => {
    alarm = setTimeout(() => { done({ none: 'slow' }); }, READ_MS_MAX);
  });
  try {
    return await Promise.race([readPages(pdfjs, bytes, reader.worker), late]);
  } finally {
    clearTimeout(alarm);
    reader.end();
  }
}

async function inWorker(pdfjs: Pdfjs): Promise<Reader> {
  const { default: url } = await import('pdfjs-dist/legacy/build/pdf.worker.min.mjs?url');
  const port = new Worker(url, { type: 'module' });
  // Its types know only the absence of a port.
  const worker = new pdfjs.PDFWorker({ port: port as unknown as null });
  return { worker, end: () => { worker.destroy(); port.terminate(); } };
}

async function readPages(
  pdfjs: Pdfjs, bytes: Uint8Array, worker: PDFWorker,
): Promise<{ text: string } | { none: NoText }> {
  try {
    const task = pdfjs.getDocument({
      data: bytes, worker, verbosity: 0,
      // Text needs no fonts drawn, and nothing is fetched.
      disableFontFace: true, useSystemFonts: false, useWorkerFetch: false, useWasm: false,
    });
    const file = await task.promise;
    if (file.numPages > PAGES_MAX) return { none: 'long' };
    const pages: string[] = [];
    for (let number = 1; number <= file.numPages; number += 1) {
      pages.push(await pageText(await file.getPage(number)));
    }
    const text = pages.filter((page) => page !== '').join('\n\n');
    return text === '' ? { none: 'scanned' } : { text };
  } catch (thrown) {
    return { none: thrown instanceof Error && thrown.name === 'PasswordException' ? 'encrypted' : 'damaged' };
  }
}

/** Piece by piece: WebKit has no `for await` over the stream, which the library's own way leans on. */
async function pageText(page: PDFPageProxy): Promise<string> {
  const pieces = (page.streamTextContent() as ReadableStream<TextContent>).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await pieces.read();
    if (done) return text.trim();
    for (const item of value.items) {
      if ('str' in item) text += item.str + (item.hasEOL ? '\n' : '');
    }
  }
}
