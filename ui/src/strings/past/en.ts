/** What the checks say about the last replies, in English. */
export const past = {
  title: 'The last replies',
  hint: 'Since Inglenook started, the newest first: who computed them, who was lost, who took over. Nothing of what was asked or said is kept for this. A token is a word or a part of one.',
  none: 'None since Inglenook started.',
  more: (count: number) => `Show ${String(count)} older ones`,
  prompt: (tokens: string) => `prompt of ${tokens} tokens`,
  lost: (device: string) => `${device} was lost.`,
  awaited: (device: string) => `It waited for ${device}.`,
  shared: (device: string) => `${device} had other replies to make too.`,
  tookOver: (to: string, from: string, after: string, seconds: string) => `${to} took over from ${from} after ${after} tokens, in ${seconds} s.`,
  tookOverHere: 'This computer took over.',
  underWay: 'Being made now.',
  done: (tokens: string, speed: string, first: string) => `${tokens} tokens, ${speed} tokens/s, the first one after ${first} s.`,
  aborted: (code: string) => `Ended early (${code}).`,
  stopped: 'Stopped by whoever asked.',
};
