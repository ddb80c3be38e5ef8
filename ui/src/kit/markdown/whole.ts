/** Waits for what a drawn text gets only later: formulas and the colours of code. */

/** Resolves once all formulas and code under `root` are drawn, or cannot be. */
export async function drawnWhole(root: Element): Promise<void> {
  const wanted: Promise<unknown>[] = [];
  if (root.querySelector('.formula') !== null) wanted.push(import('katex'));
  if (root.querySelector('pre') !== null) wanted.push(import('./languages'));
  // What cannot be loaded stays as it was written.
  await Promise.allSettled(wanted);
  // All that waited for the same has its turn first.
  await new Promise((done) => { setTimeout(done); });
}
