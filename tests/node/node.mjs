/**
 * Starts a real `nook` node with a home of its own and a port that is open.
 *
 * The program is found through the variable `NOOK_BIN`, which `cargo xtask test` sets. The node keeps
 * its key in a file, because one keychain would give all nodes one identity.
 */

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import "./offline.mjs";

// They end a test that hangs; a busy machine may take a good part of each.
const START_MS = 120_000;
const LEAVE_MS = 60_000;
// Ports below those that the system gives to connections: nobody takes one between its choice and its use.
const [PORT_MIN, PORT_MAX] = [12_000, 32_000];

/** One device: a process and a home. */
export class Node {
  #folder = mkdtempSync(join(tmpdir(), "inglenook-node-"));
  #home = join(this.#folder, "home");
  #process;
  #port;

  /** Starts a node and waits until it is up. */
  static async start(name) {
    const node = new Node();
    node.#port = await freePort();
    mkdirSync(node.#home, { recursive: true });
    writeFileSync(
      join(node.#home, "settings.toml"),
      `[device]\nname = "${name}"\n[network]\nlisten_port = 0\nloopback = true\n` +
        `[port]\naddress = "127.0.0.1:${node.#port}"\n`,
    );
    const log = openSync(node.#logFile, "w");
    node.#process = spawn(program(), ["--home", node.#home, "up"], {
      env: environment(),
      stdio: ["ignore", log, log],
    });
    await node.#untilUp();
    return node;
  }

  /** Address of the port, for clients that know their paths themselves. */
  get address() {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Address of the OpenAI-compatible port. */
  get baseURL() {
    return `${this.address}/v1`;
  }

  /** Its key. */
  get key() {
    return execFileSync(program(), ["--home", this.#home, "key"], { env: environment() })
      .toString()
      .trim();
  }

  /** Ends the node in order, and forgets its home. */
  async stop() {
    const ended = once(this.#process, "exit");
    this.#process.kill("SIGTERM");
    const late = sleep(LEAVE_MS, "late", { ref: false });
    if ((await Promise.race([ended, late])) === "late") {
      this.#process.kill("SIGKILL");
      await ended;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }

  get #logFile() {
    return join(this.#home, "log.txt");
  }

  async #untilUp() {
    const end = Date.now() + START_MS;
    while (!readFileSync(this.#logFile, "utf8").includes(" is up") || !(await this.#answers())) {
      const log = readFileSync(this.#logFile, "utf8");
      if (this.#process.exitCode !== null) throw new Error(`it ended:\n${log}`);
      if (Date.now() > end) throw new Error(`it is not up:\n${log}`);
      await sleep(100);
    }
  }

  async #answers() {
    try {
      return (await fetch(`http://127.0.0.1:${this.#port}/healthz`)).ok;
    } catch {
      return false;
    }
  }
}

function program() {
  const found = process.env.NOOK_BIN;
  if (!found) throw new Error("set NOOK_BIN to the nook program; `cargo xtask test` does");
  return found;
}

/** No keychain and no session bus of somebody else. */
function environment() {
  const { DBUS_SESSION_BUS_ADDRESS: _bus, INGLENOOK_HOME: _home, ...rest } = process.env;
  return { ...rest, INGLENOOK_KEYRING: "off" };
}

/** A port of this machine that nobody uses now. */
async function freePort() {
  for (;;) {
    const port = PORT_MIN + Math.floor(Math.random() * (PORT_MAX - PORT_MIN));
    const probe = createServer();
    try {
      probe.listen(port, "127.0.0.1");
      await once(probe, "listening");
    } catch {
      continue;
    }
    probe.close();
    await once(probe, "close");
    return port;
  }
}
