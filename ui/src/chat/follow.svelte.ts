/** Keeps the end of a growing list in view while the reader is at the end, and never otherwise. */

/** This near to the end counts as being there: fonts and zoom leave fractions. */
const NEAR_PX = 48;

export class Follow {
  /** Whether the newest words are in view. */
  atEnd = $state(true);
  #element: HTMLElement | null = null;

  /** Svelte attachment for the scrolling element. */
  readonly attach = (element: HTMLElement): (() => void) => {
    this.#element = element;
    const onScroll = () => {
      this.atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PX;
    };
    // Watches what is inside, because the frame itself keeps its size while the words grow.
    const grown = new MutationObserver(() => {
      if (this.atEnd) this.toEnd();
    });
    const resized = new ResizeObserver(() => {
      if (this.atEnd) this.toEnd();
    });
    element.addEventListener('scroll', onScroll, { passive: true });
    grown.observe(element, { childList: true, subtree: true, characterData: true });
    resized.observe(element);
    this.toEnd();
    return () => {
      element.removeEventListener('scroll', onScroll);
      grown.disconnect();
      resized.disconnect();
      this.#element = null;
    };
  };

  toEnd(): void {
    if (this.#element !== null) this.#element.scrollTop = this.#element.scrollHeight;
    this.atEnd = true;
  }

  /** To the end by a button that is gone there: the focus goes to the list, so that the next Tab goes on from here. */
  askedToEnd(): void {
    this.toEnd();
    this.#element?.focus({ preventScroll: true });
  }
}
