/** What keys do in the message field, and how tall it is. */

/** Whether this key sends: Enter alone, and not the Enter that ends an input method's word. */
export function sends(event: Pick<KeyboardEvent, 'key' | 'shiftKey' | 'isComposing'>): boolean {
  return event.key === 'Enter' && !event.shiftKey && !event.isComposing;
}

/** Makes the field as tall as `text` needs; the style sheet sets the most. */
export function fieldHeight(field: HTMLTextAreaElement, text: string): void {
  field.style.blockSize = 'auto';
  if (text !== '') field.style.blockSize = `${String(field.scrollHeight)}px`;
}
