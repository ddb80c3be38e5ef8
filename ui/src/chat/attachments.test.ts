/** Promises of `attachments.ts`: text in, text out; everything else is refused in words. */
import { expect, it } from 'vitest';
import { useLanguage } from '../strings';
import { FILE_BYTES_MAX, join, read, split, type Attachment } from './attachments';

async function refusal(file: File): Promise<string> {
  const outcome = await read(file);
  return 'refused' in outcome ? outcome.refused : 'taken';
}

it('reads text, with one kind of line end and a plain name', async () => {
  expect(await read(new File(['a\r\nb'], 'no"tes.txt'))).toEqual({ name: 'notes.txt', text: 'a\nb' });
});

it('refuses what is no text or too large, and says which', async () => {
  expect(await refusal(new File([new Uint8Array([1, 0, 2])], 'a.bin'))).toContain('a.bin is not a text');
  expect(await refusal(new File([new Uint8Array([0xff, 0xfe, 0x41])], 'b.txt'))).toContain('b.txt is not a text');
  expect(await refusal(new File(['x'.repeat(FILE_BYTES_MAX + 1)], 'd.txt'))).toContain('too large');
});

/** A file that the browser cannot read any more: what is thrown is what browsers throw. */
function vanished(name: string, kind: string): File {
  const file = new File(['text'], name);
  const refuse = () => Promise.reject(new DOMException('A requested file could not be found.', kind));
  Object.defineProperty(file, 'arrayBuffer', { value: refuse });
  Object.defineProperty(file, 'slice', { value: () => ({ arrayBuffer: refuse }) });
  return file;
}

it('says that a file vanished while it was attached, in both languages', async () => {
  expect(await refusal(vanished('a.txt', 'NotFoundError'))).toContain('a.txt is not there any more');
  expect(await refusal(vanished('b.txt', 'NotReadableError'))).toContain('b.txt cannot be read');
  expect(await refusal(vanished('c.txt', 'AbortError'))).toBe('c.txt could not be read: A requested file could not be found.');
  await useLanguage('de', document.documentElement);
  expect(await refusal(vanished('a.txt', 'NotFoundError'))).toContain('a.txt ist nicht mehr da');
  await useLanguage('en', document.documentElement);
});

it.each<[string, Attachment[]]>([
  ['What does this do?', [{ name: 'letters.py', text: 'print("hi")' }]],
  ['', [{ name: 'a.md', text: '# Title\n\n```\ncode\n```' }]],
  ['Compare', [{ name: 'a.txt', text: 'one' }, { name: 'b.txt', text: '````\nmore\n````' }]],
  ['no files', []],
])('writes files into %j and takes them out again', (text, files) => {
  expect(split(join(text, files))).toEqual({ text, files });
});

it('leaves code alone that the person wrote', () => {
  const typed = 'Look:\n\n```python\nprint(1)\n```';
  expect(split(typed)).toEqual({ text: typed, files: [] });
});

it('names the language for the model', () => {
  expect(join('', [{ name: 'main.rs', text: 'fn main() {}' }])).toBe('```rust title="main.rs"\nfn main() {}\n```');
});
