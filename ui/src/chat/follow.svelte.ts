/**
 * Keeps the end of a growing list in view while the reader is at the end; else keeps in its place what they read,
 * whatever grows or comes above it.
 *
 * The second is the browser's work where it has `overflow-anchor`: setting a place by hand ends a scroll that is still
 * moving. WebKit has not, so it is done here.
 */

/** This near to the end counts as being there: fonts and zoom leave fractions. */
const NEAR_PX = 48;
/** Less than this is rounding. */
const SHIFT_MIN_PX = 1;

/** What stays in its place: the uppermost article in view, and how far below the edge it stands. */
interface Anchor {
  article: Element;
  top: number;
}

export class Follow {
  /** Whether the newest words are in view. */
  atEnd = $state(true);
  #element: HTMLElement | null = null;
  #anchor: Anchor | null = null;
  #resized: ResizeObserver | null = null;
  readonly #anchors = !CSS.supports('overflow-anchor', 'auto');

  /** Svelte attachment for the scrolling element. */
  readonly attach = (element: HTMLElement): (() => void) => {
    this.#element = element;
    const onScroll = () => {
      this.atEnd = isAtEnd(element);
      if (this.#anchors) this.#anchor = anchorOf(element);
    };
    if (this.#anchors) element.style.setProperty('overflow-anchor', 'none');
    // Watches what is inside, because the frame itself keeps its size while the words grow.
    const grown = new MutationObserver(() => {
      if (this.atEnd) this.toEnd();
    });
    this.#observer().observe(element);
    element.addEventListener('scroll', onScroll, { passive: true });
    grown.observe(element, { childList: true, subtree: true, characterData: true });
    this.toEnd();
    return () => {
      element.removeEventListener('scroll', onScroll);
      grown.disconnect();
      this.#resized?.disconnect();
      this.#element = null;
    };
  };

  /** Svelte attachment for the parts of the list, whose height may change above what is read. */
  readonly part = (part: HTMLElement): (() => void) => {
    const observer = this.#observer();
    observer.observe(part);
    return () => { observer.unobserve(part); };
  };

  /** The list has a new layout: the reader sees what they saw. */
  readonly settle = (): void => {
    if (this.#element === null) return;
    if (this.atEnd) {
      this.toEnd();
      return;
    }
    if (!this.#anchors) return;
    if (this.#anchor?.article.isConnected) {
      const shift = topOf(this.#anchor.article, this.#element) - this.#anchor.top;
      if (Math.abs(shift) >= SHIFT_MIN_PX) this.#element.scrollTop += shift;
    } else {
      this.#anchor = anchorOf(this.#element);
    }
  };

  /** Keys that lead far: a browser would move there slowly, and stop where messages of another height come up. */
  readonly onkeydown = (event: KeyboardEvent): void => {
    const hasModifier = event.ctrlKey || event.altKey || event.metaKey || event.shiftKey;
    if (event.target !== this.#element || hasModifier || (event.key !== 'Home' && event.key !== 'End')) return;
    event.preventDefault();
    if (event.key === 'End') this.toEnd();
    else this.#element?.scrollTo({ top: 0, behavior: 'instant' });
  };

  toEnd(): void {
    if (this.#element !== null) this.#element.scrollTop = this.#element.scrollHeight;
    this.atEnd = true;
  }

  /** The reader goes to another place: the end is not kept in view on the way, but where that is the end. */
  leave(): void {
    this.atEnd = false;
    requestAnimationFrame(() => {
      if (this.#element !== null) this.atEnd = isAtEnd(this.#element);
    });
  }

  /** To the end by a button that is gone there: the focus goes to the list, so that the next Tab goes on from here. */
  askedToEnd(): void {
    this.toEnd();
    this.#element?.focus({ preventScroll: true });
  }

  /** Tells sizes before they are drawn. */
  #observer(): ResizeObserver {
    return (this.#resized ??= new ResizeObserver(this.settle));
  }
}

function isAtEnd({ scrollHeight, scrollTop, clientHeight }: HTMLElement): boolean {
  return scrollHeight - scrollTop - clientHeight < NEAR_PX;
}

/** The uppermost article that is in view; null where there is none, as in the middle of what is not mounted. */
function anchorOf(element: HTMLElement): Anchor | null {
  for (const article of element.querySelectorAll('article')) {
    const top = topOf(article, element);
    if (top + article.clientHeight > 0) return top < element.clientHeight ? { article, top } : null;
  }
  return null;
}

function topOf(article: Element, element: HTMLElement): number {
  return article.getBoundingClientRect().top - element.getBoundingClientRect().top;
}
