/** Words that are typed over messages: they stay until the house has taken them, or the person gave them up. Pure. */

/** What a form keeps of one message. */
export function keptIn(typed: Map<number, string>, message: number | undefined): { before: string | undefined; type: (text: string) => void } {
  if (message === undefined) return { before: undefined, type: () => undefined };
  return { before: typed.get(message), type: (text) => { typed.set(message, text); } };
}
