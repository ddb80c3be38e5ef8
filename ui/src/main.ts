/** Starts the window: look, backend, page. */
import { mount } from 'svelte';
import { chooseBackend } from './backend/choose';
import './look/tokens.css';
import './look/base.css';
import { followSystemTheme } from './look/theme';
import { t } from './strings';
import MainWindow from './windows/MainWindow.svelte';
import { WindowState } from './windows/window.svelte';

async function start(target: HTMLElement): Promise<void> {
  followSystemTheme(document.documentElement);
  const backend = await chooseBackend();
  if (backend === null) {
    target.textContent = t.app.noBackend;
    return;
  }
  const state = new WindowState(backend);
  mount(MainWindow, { target, props: { state } });
  await state.start();
}

const target = document.getElementById('app');
if (target !== null) void start(target);
