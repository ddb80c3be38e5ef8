/** Starts the window: language, look, backend, page. */
import '@fontsource-variable/inter/wght.css';
import { mount } from 'svelte';
import { chooseBackend } from './backend/choose';
import './look/tokens.css';
import './look/base.css';
import { chosenLanguage } from './look/look.svelte';
import { languageFor, t, useLanguage } from './strings';
import MainWindow from './windows/MainWindow.svelte';
import { WindowState } from './windows/window.svelte';

async function start(target: HTMLElement): Promise<void> {
  // Nothing jumps: the letters are there before the first words. Without them the system's do.
  const letters = document.fonts.load('1em "Inter Variable"').catch(() => []);
  const chosen = chosenLanguage(localStorage);
  const mirrored = import.meta.env.MADE_UP && chosen === 'mirrored';
  await useLanguage(mirrored ? 'mirrored' : languageFor(chosen, navigator.languages), document.documentElement);
  const backend = await chooseBackend();
  if (backend === null) {
    target.textContent = t.app.noBackend;
    return;
  }
  await letters;
  const state = new WindowState(backend);
  state.look.follow();
  mount(MainWindow, { target, props: { state } });
  // A house that did not start keeps no language; the window says so by itself.
  backend.arrived(document.documentElement.lang).catch(() => undefined);
  await state.start();
}

const target = document.getElementById('app');
if (target !== null) void start(target);
