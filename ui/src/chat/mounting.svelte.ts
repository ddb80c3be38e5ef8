/**
 * Which chunks of a conversation are mounted: those near the view, and those in which somebody does something.
 *
 * Keyboard: what gets the focus is scrolled into view, and chunks are mounted a whole view ahead, so Tab finds no gap.
 * Screen readers: a chunk beside a mounted one has a button that mounts it. A search of the browser in the page
 * (WebView2 has one) finds the words of all chunks and mounts the one that it goes to. What is selected stays;
 * "select all" takes what is mounted, a whole chat is saved by "About this chat".
 */
import { flushSync } from 'svelte';
import { SvelteSet } from 'svelte/reactivity';

/** How far around the view chunks are mounted, and from where on they are taken away again: apart, or a hand that
 *  scrolls to and fro would draw the same chunk again and again. */
const NEAR = '100% 0px';
const FAR = '300% 0px';
/** What a person has opened in a chunk, or writes in it, would be gone with it. */
const IN_USE = 'details[open], textarea, .route [aria-expanded="true"]';

export class Mounting {
  readonly #mounted = new SvelteSet<number>();
  /** Heights of chunks as they were last seen, in pixels. */
  readonly #heights = new Map<number, number>();
  readonly #keys = new WeakMap<Element, number>();
  #near: IntersectionObserver | null = null;
  #far: IntersectionObserver | null = null;
  /** Called once chunks were mounted and the page has its new layout. */
  readonly #changed: () => void;
  readonly #always: (key: number) => boolean;

  /** `always`: whether a chunk is mounted wherever the reader is. */
  constructor(changed: () => void, always: (key: number) => boolean) {
    this.#changed = changed;
    this.#always = always;
  }

  has(key: number): boolean {
    return this.#mounted.has(key) || this.#always(key);
  }

  /** Whether the chunk is not mounted and stands beside one that is. */
  isEdge(key: number): boolean {
    return !this.has(key) && (this.has(key - 1) || this.has(key + 1));
  }

  /** The height that a chunk had when it was mounted last. */
  height(key: number): number | undefined {
    return this.#heights.get(key);
  }

  mount(keys: readonly number[]): void {
    const fresh = keys.filter((key) => !this.#mounted.has(key));
    if (fresh.length === 0) return;
    flushSync(() => { for (const key of fresh) this.#mounted.add(key); });
    this.#changed();
  }

  /** Svelte attachment for the element of a chunk. */
  readonly watch = (key: number) => (section: HTMLElement): (() => void) => {
    this.#keys.set(section, key);
    const root = section.parentElement;
    this.#near ??= new IntersectionObserver((seen) => { this.mount(this.#keysOf(seen.filter((one) => one.isIntersecting))); }, { root, rootMargin: NEAR });
    this.#far ??= new IntersectionObserver((seen) => { this.#leave(seen.filter((one) => !one.isIntersecting)); }, { root, rootMargin: FAR });
    const { near, far } = { near: this.#near, far: this.#far };
    near.observe(section);
    far.observe(section);
    return () => {
      near.unobserve(section);
      far.unobserve(section);
    };
  };

  #keysOf(seen: readonly IntersectionObserverEntry[]): number[] {
    return seen.flatMap(({ target }) => this.#keys.get(target) ?? []);
  }

  #leave(seen: readonly IntersectionObserverEntry[]): void {
    for (const { target, boundingClientRect } of seen) {
      const key = this.#keys.get(target);
      if (key === undefined || !this.#mounted.has(key) || isInUse(target)) continue;
      this.#heights.set(key, boundingClientRect.height);
      this.#mounted.delete(key);
    }
  }
}

function isInUse(section: Element): boolean {
  const selection = document.getSelection();
  const isSelected = selection !== null && !selection.isCollapsed && selection.rangeCount > 0 && selection.getRangeAt(0).intersectsNode(section);
  return isSelected || section.contains(document.activeElement) || section.querySelector(IN_USE) !== null;
}
