/** The focus of controls that come and go: where one vanishes under it, its neighbour takes it over. */

const CONTROLS = 'a[href], button:enabled, input:enabled, select:enabled, textarea:enabled, summary';

/** Svelte attachment for what holds the controls, and stays itself. Without a control left, it has the focus. */
export function handsOver(place: HTMLElement): () => void {
  let held: Element | null = null;
  /** What it stands in. */
  let around: Element | null = null;
  /** Which of the controls it is. */
  let at = 0;
  const controls = () => [...place.querySelectorAll<HTMLElement>(CONTROLS)];

  const took = (): void => {
    held = place.contains(document.activeElement) ? document.activeElement : null;
    around = held?.parentElement ?? null;
    at = controls().findIndex((control) => control === held);
  };
  const lost = (): void => {
    const before = held;
    // A control that vanishes is gone only afterwards; whoever went elsewhere is not called back.
    queueMicrotask(() => {
      if (before?.isConnected && before !== document.activeElement && held === before) held = null;
    });
  };
  const changes = new MutationObserver(() => {
    if (held === null) return;
    if (held.isConnected) return took();
    held = null;
    if (document.activeElement !== document.body) return;
    const left = controls();
    const beside = left.find((control) => around !== null && around !== place && around.contains(control));
    const next = beside ?? left[Math.min(Math.max(at, 0), left.length - 1)] ?? place;
    if (next === place) place.tabIndex = -1;
    next.focus();
  });

  place.addEventListener('focusin', took);
  place.addEventListener('focusout', lost);
  changes.observe(place, { childList: true, subtree: true });
  return () => {
    place.removeEventListener('focusin', took);
    place.removeEventListener('focusout', lost);
    changes.disconnect();
  };
}
