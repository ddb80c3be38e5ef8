/** What the fake model says, and the conversations that the fake household already had. */
import type { ChatRole } from '../../generated/ChatRole';

export const LEAVES = `A green leaf is a tiny kitchen. The green colour is **chlorophyll**, the cook that turns sunlight into sugar. When days get short, the tree closes the kitchen:

1. It takes the green apart and stores the useful bits in its branches.
2. Yellow and orange were there all summer, hidden behind the green.
3. Red is new: sugar stays trapped in the leaf, and cool, sunny days turn it red.

For your brother: *the tree puts its green crayons away for winter, and we see the other colours that were in the box.*`;

export const LEAVES_AGAIN = `Think of a leaf as a paint box. All summer the tree uses **green** so much that nobody sees the other paints. In autumn it stops buying green, and the yellow and red that were there all along come out.`;

export const CODE = `Here is a small program that counts how often each letter occurs:

\`\`\`python
from collections import Counter

def letters(text: str) -> Counter[str]:
    """Counts letters, big and small alike."""
    return Counter(c for c in text.lower() if c.isalpha())

print(letters("Inglenook").most_common(3))
\`\`\`

| Letter | Times |
| :----- | ----: |
| n      | 2     |
| o      | 2     |
| i      | 1     |

Save it as \`letters.py\` and read [the manual](https://docs.python.org/3/library/collections.html) for more.`;

export const FRACTIONS = String.raw`Yes. Make the bottoms equal:

\[ \frac{3}{4} = \frac{3 \cdot 2}{4 \cdot 2} = \frac{6}{8} > \frac{5}{8} \]

Six parts of eight are more than five. In general \(\frac{a}{b} > \frac{c}{d}\) when $ad > bc$, as long as \(b\) and \(d\) are above zero.`;

export const STORY = `Once upon a time there was a little fire that lived in a quiet corner of an old kitchen. Every evening the family sat close to it, and every evening the little fire listened.

One cold night the wind came down the chimney. "You are very small," said the wind. "I could blow you out."

"You could," said the little fire, "but then who would warm the soup?"

The wind thought about the soup for a long time. Then it went away, and came back only to carry the good smell to the neighbours.`;

/** What the fake model thinks before it answers. */
export const THOUGHT = `The person wants something short and warm.

A story by the fire could do. Keep it gentle.`;

/** A reply that reads as at least so many words, with everything in it that the page sets in its own way. */
function long(count: number): string {
  const parts = [STORY, LEAVES, CODE];
  const said: string[] = [];
  for (let words = 0; words < count;) {
    const part = parts[said.length % parts.length] ?? STORY;
    said.push(part);
    // What begins with a sign of Markdown may not be seen, so it does not count.
    words += part.match(/(?<!\S)\p{L}\S*/gu)?.length ?? 0;
  }
  return said.join('\n\n');
}

/** The reply to a prompt. */
export function replyTo(prompt: string): string {
  const words = prompt.toLowerCase();
  const wanted = /(\d{2,5}) words/.exec(words)?.[1];
  if (wanted) return long(Number(wanted));
  if (words.includes('code') || words.includes('program')) return CODE;
  if (words.includes('leaves') || words.includes('leaf') || words.includes('hand over')) return LEAVES;
  return STORY;
}

export interface OldMessage {
  role: ChatRole;
  text: string;
  cut?: string;
  failover?: boolean;
  /** A second reply to the same message of the person. */
  sibling?: boolean;
}

/** Conversations of the past: hours ago, title, messages. */
export const PAST: [number, string, OldMessage[]][] = [
  [0.2, 'Why leaves change colour', [
    { role: 'user', text: 'Why do leaves turn red in autumn? Explain it so that I can tell my little brother.' },
    { role: 'assistant', text: LEAVES_AGAIN },
    { role: 'assistant', text: LEAVES, failover: true, sibling: true },
  ]],
  [2, 'Packing list for the mountains', [
    { role: 'user', text: 'What do we pack for three days in the mountains?' },
    { role: 'assistant', text: 'Warm layers, rain jackets, sun cream, a map, and twice as many socks as you', cut: 'Dad’s PC went to sleep and nobody could take over.' },
  ]],
  [3, 'A program that counts letters', [
    { role: 'user', text: 'Write a program that counts letters.' },
    { role: 'assistant', text: CODE },
  ]],
  [26, 'Fractions, homework page 42', [
    { role: 'user', text: 'Is 3/4 more than 5/8?' },
    { role: 'assistant', text: FRACTIONS },
  ]],
  [29, 'Soup with what is left', [
    { role: 'user', text: 'Carrots, one potato, half an onion. Soup?' },
    { role: 'assistant', text: 'Soup! Fry the onion, add the rest in small cubes, cover with water, simmer twenty minutes, blend.' },
  ]],
  [24 * 20, 'Thank-you letter to Oma', [
    { role: 'user', text: 'Help me write to Oma about the scarf.' },
    { role: 'assistant', text: 'Dear Oma, the scarf is warm and it is exactly my green. I wore it on the first frosty morning.' },
  ]],
];
