/** Parts of the window that are loaded when they are wanted, and then kept. */

/** Loads a part once. One that could not be loaded is tried again the next time. */
export function part<Part>(load: () => Promise<{ default: Part }>): () => Promise<Part> {
  let kept: Promise<Part> | null = null;
  return () => {
    kept ??= load().then((module) => module.default, (thrown: unknown) => {
      kept = null;
      throw thrown;
    });
    return kept;
  };
}
