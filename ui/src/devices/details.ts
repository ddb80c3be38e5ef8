/** The details of one computer, which are loaded once the page of the household is open. */
export { default as DeviceDetail } from './DeviceDetail.svelte';
export { default as ThisDevice } from './ThisDevice.svelte';
