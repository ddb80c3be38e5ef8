/** Promises of `pdf.ts`: text comes out, and what has none is told apart. The files are made here. */
import { expect, it } from 'vitest';
import { read } from './attachments';
import { pdfText, type Pdfjs, type Reader } from './pdf';

/** pdf.js without a worker, which this place has none of: the same code, in the same thread. */
async function here(pdfjs: Pdfjs): Promise<Reader> {
  // @ts-expect-error -- it is published without types
  const handler: unknown = await import('pdfjs-dist/legacy/build/pdf.worker.mjs');
  Object.assign(globalThis, { pdfjsWorker: handler });
  const worker = new pdfjs.PDFWorker();
  return { worker, end: () => { worker.destroy(); } };
}

/** A PDF of one page for each of `streams`, its drawing orders; `trailer` goes into the trailer. */
function pdf(streams: string[], trailer = '', more: string[] = []): Uint8Array<ArrayBuffer> {
  const kids = streams.map((_, page) => `${String(4 + 2 * page)} 0 R`).join(' ');
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    `<< /Type /Pages /Kids [${kids}] /Count ${String(streams.length)} >>`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>',
    ...streams.flatMap((stream, page) => [
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Resources << /Font << /F 3 0 R >> >> /Contents ${String(5 + 2 * page)} 0 R >>`,
      `<< /Length ${String(stream.length)} >>\nstream\n${stream}\nendstream`,
    ]),
    ...more,
  ];
  let text = '%PDF-1.4\n';
  const places = objects.map((object, at) => {
    const place = text.length;
    text += `${String(at + 1)} 0 obj\n${object}\nendobj\n`;
    return `${String(place).padStart(10, '0')} 00000 n \n`;
  });
  const start = text.length;
  text += `xref\n0 ${String(objects.length + 1)}\n0000000000 65535 f \n${places.join('')}`;
  text += `trailer\n<< /Size ${String(objects.length + 1)} /Root 1 0 R ${trailer} >>\nstartxref\n${String(start)}\n%%EOF\n`;
  // Every character is one byte, so the places counted above are those of the file.
  return Uint8Array.from(text, (letter) => letter.charCodeAt(0));
}

const LINES = 'BT /F 12 Tf 20 150 Td (Why leaves change) Tj 0 -16 Td (colour in autumn.) Tj ET';
const SECOND = 'BT /F 12 Tf 20 150 Td (Gr\\374\\337e) Tj ET';
const PICTURE = '0.5 g 10 10 100 100 re f';

it('gives the text of all pages, line by line', async () => {
  expect(await pdfText(pdf([LINES, SECOND]), here)).toEqual({ text: 'Why leaves change\ncolour in autumn.\n\nGrüße' });
});

it('says that pages without letters are pictures', async () => {
  expect(await pdfText(pdf([PICTURE]), here)).toEqual({ none: 'scanned' });
});

it('says that a file asks for a password', async () => {
  const key = `<${'5a'.repeat(32)}>`;
  const lock = `<< /Filter /Standard /V 1 /R 2 /O ${key} /U ${key} /P -44 >>`;
  const locked = pdf([LINES], `/Encrypt 6 0 R /ID [<${'00'.repeat(16)}> <${'00'.repeat(16)}>]`, [lock]);
  expect(await pdfText(locked, here)).toEqual({ none: 'encrypted' });
});

it.each([['cut off', pdf([LINES]).slice(0, 40)], ['no PDF at all', new TextEncoder().encode('%PDF-1.7 …')]])(
  'says that a file is damaged that is %s', async (_, bytes) => {
    expect(await pdfText(bytes, here)).toEqual({ none: 'damaged' });
  });

it('is attached as text under its own name', async () => {
  const file = new File([pdf([LINES])], 'Leaves.pdf');
  expect(await read(file, here)).toEqual({ name: 'Leaves.pdf', text: 'Why leaves change\ncolour in autumn.' });
  const scanned = await read(new File([pdf([PICTURE])], 'Scan.pdf'), here);
  expect('refused' in scanned ? scanned.refused : '').toContain('Scan.pdf');
});
