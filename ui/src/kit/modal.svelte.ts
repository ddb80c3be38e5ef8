/** Opens and closes a native dialog, and gives the focus back to where it came from. */

export class Modal {
  #element: HTMLDialogElement | null = null;
  #before: Element | null = null;

  /** Svelte attachment for the `<dialog>`; shows it at once and gives the focus back when it goes. */
  readonly attach = (element: HTMLDialogElement): (() => void) => {
    this.#element = element;
    this.#before = document.activeElement;
    element.showModal();
    return () => {
      if (element.open) element.close();
      this.#element = null;
      this.#giveBack();
    };
  };

  /** Closes the dialog; its `close` event tells the owner. */
  close(): void {
    this.#element?.close();
  }

  #giveBack(): void {
    if (this.#before instanceof HTMLElement && this.#before.isConnected) this.#before.focus();
    this.#before = null;
  }
}
