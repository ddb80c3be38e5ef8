/** What keys do in the message field, and how tall it is. */

/** Whether this key sends: Enter alone, and not the Enter that ends an input method's word. */
export function sends(event: Pick<KeyboardEvent, 'key' | 'shiftKey' | 'isComposing'>): boolean {
  return event.key === 'Enter' && !event.shiftKey && !event.isComposing;
}

/** Whether this key takes a text in which Enter begins a new line. */
export function takesLines(event: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'isComposing'>): boolean {
  return event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !event.isComposing;
}

/** A longer text fills the field anyhow: measuring it would lay all of it out twice with each key. */
const MEASURED_CHARACTERS_MAX = 20_000;

/** Makes the field as tall as `text` needs; the style sheet sets the most. Where the style sheet can do that too, by
 *  `field-sizing`, nothing is measured here, and a key costs no layout more. */
export function fieldHeight(field: HTMLTextAreaElement, text: string): void {
  if (CSS.supports('field-sizing', 'content')) return;
  if (text.length > MEASURED_CHARACTERS_MAX) {
    field.style.blockSize = '100vh';
    return;
  }
  field.style.blockSize = 'auto';
  if (text !== '') field.style.blockSize = `${String(field.scrollHeight)}px`;
}
