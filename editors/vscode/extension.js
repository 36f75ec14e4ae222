// Starts `patchgen lsp`, and starts it again when its command changes or a person asks for that.
"use strict";

const path = require("node:path");
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

const SHOW_DIFF = "patchgen.showDiff";

let output;
let client;
let changing = Promise.resolve();

function makeClient() {
  const [command, ...args] = vscode.workspace.getConfiguration("patchgen").get("command");
  const cwd = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  return new LanguageClient(
    "patchgen", // the settings patchgen.trace.server
    "patchgen",
    { command, args, options: { cwd } },
    {
      documentSelector: [{ scheme: "file", language: "python" }],
      initializationOptions: { showsDiffs: true },
      middleware: { executeCommand },
      outputChannel: output,
    },
  );
}

// The commands of the server are VS Code's as well: the client registers them, and comes here when one is run.
async function executeCommand(command, args, next) {
  const answer = await next(command, args);
  if (command === SHOW_DIFF) {
    for (const pair of answer ?? []) {
      const title = `${path.basename(pair.upstream)} ↔ ${path.basename(pair.generated)}`;
      const place = pair.line === undefined ? undefined : new vscode.Position(pair.line, 0);
      const selection = place && new vscode.Range(place, place);
      const sides = [vscode.Uri.file(pair.upstream), vscode.Uri.file(pair.generated)];
      await vscode.commands.executeCommand("vscode.diff", ...sides, title, { preview: true, selection });
    }
  }
  return answer;
}

async function start() {
  const starting = makeClient();
  try {
    await starting.start();
    client = starting;
  } catch (error) {
    tellFailure(error); // which nothing waits for: a restart need not
  }
}

async function tellFailure(error) {
  const [command] = vscode.workspace.getConfiguration("patchgen").get("command");
  const choice = await vscode.window.showErrorMessage(
    `patchgen: '${command}' does not start (${error.message}). Set patchgen.command to the one of your environment.`,
    "Open the setting",
  );
  if (choice) {
    await vscode.commands.executeCommand("workbench.action.openSettings", "patchgen.command");
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

// One after the other: a restart that is asked for during another waits for it.
function restart() {
  changing = changing.then(stop, stop).then(start);
  return changing;
}

async function activate(context) {
  output = vscode.window.createOutputChannel("patchgen");
  context.subscriptions.push(
    output,
    vscode.commands.registerCommand("patchgen.restart", restart),
    vscode.commands.registerCommand("patchgen.showOutput", () => output.show(true)),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("patchgen.command")) {
        restart();
      }
    }),
  );
  restart();
}

module.exports = { activate, deactivate: () => changing.then(stop, stop) };
