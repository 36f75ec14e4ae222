// Starts `patchgen lsp`, and starts it again when its command changes or a person asks for that.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

async function start() {
  const [command, ...args] = vscode.workspace.getConfiguration("patchgen").get("command");
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  client = new LanguageClient(
    "patchgen",
    "patchgen",
    { command, args, options: { cwd: folder } },
    { documentSelector: [{ scheme: "file", language: "python" }] },
  );
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    vscode.window.showErrorMessage(
      `patchgen: '${command}' does not start (${error.message}). Set patchgen.command to the one of your environment.`,
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("patchgen.restart", async () => {
      await stop();
      await start();
    }),
    vscode.workspace.onDidChangeConfiguration(async (change) => {
      if (change.affectsConfiguration("patchgen.command")) {
        await stop();
        await start();
      }
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
