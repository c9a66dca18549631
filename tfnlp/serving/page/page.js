// The form of each action, and the requests. No text of a module is ever read as HTML.
import { element, show } from "./results.js";

const get = (id) => document.getElementById(id);
let chosen; // the action of the form

async function answered(address, request) {
  let response;
  try {
    response = await fetch(address, request);
  } catch {
    throw new Error("The server does not answer; was it stopped?");
  }
  const text = await response.text();
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    throw new Error(`The server answered with status ${response.status}: ${text.slice(0, 200)}`);
  }
  if (!response.ok) throw new Error(found.error ?? `The server answered with status ${response.status}.`);
  return found;
}

// The last prediction of a stream of lines; what comes before it is shown as it comes.
async function streamed(address, request, shown) {
  const response = await fetch(address, request).catch(() => null);
  if (response === null) throw new Error("The server does not answer; was it stopped?");
  if (!response.ok) throw new Error((await response.json()).error);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("The server ended before the text did.");
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const found of parts.map((part) => JSON.parse(part))) {
      if (found.error) throw new Error(found.error);
      if (found.predictions) return found;
      text += found.text;
      if (!shown(text)) { // another tab was chosen: hang up
        await reader.cancel();
        return { predictions: [] };
      }
    }
  }
}

function say(error) {
  get("error").textContent = error ? error.message : "";
  get("error").hidden = !error;
}

function input(field) {
  const many = field.kind === "text" || field.kind === "lines" || field.kind === "list";
  const made = element(many ? "textarea" : "input", { id: `field-${field.name}`, value: field.example });
  if (many) made.rows = field.kind === "list" ? 6 : 4;
  if (field.kind === "number") Object.assign(made, { type: "number", min: 0, step: 1 });
  return [element("label", { htmlFor: made.id, textContent: field.label }), made];
}

function setting(option) {
  const made = element("input", { id: `option-${option.name}` });
  const label = element("label", { htmlFor: made.id, textContent: `${option.label} ` });
  if (typeof option.default === "boolean") {
    Object.assign(made, { type: "checkbox", checked: option.default });
  } else {
    Object.assign(made, { type: "number", min: option.low, max: option.high, step: "any", value: option.default });
  }
  label.append(made);
  return label;
}

function choose(action) {
  chosen = action;
  for (const tab of get("actions").children) {
    tab.setAttribute("aria-pressed", String(tab.dataset.name === action.name));
  }
  const settings = element("div", { className: "options" }, action.options.map(setting));
  const run = element("button", { id: "run", type: "submit", textContent: action.button });
  get("form").replaceChildren(
    element("p", { textContent: action.help }), ...action.fields.flatMap(input), settings, run,
  );
  get("results").replaceChildren();
  get("json").hidden = true;
  say(null);
}

const lines = (text) => text.split("\n").filter((line) => line.trim());

function instances() {
  const values = Object.fromEntries(chosen.fields.map((field) => {
    const text = get(`field-${field.name}`).value;
    if (field.kind === "number") return [field.name, text === "" ? null : Number(text)];
    return [field.name, field.kind === "list" || field.kind === "lines" ? lines(text) : text];
  }));
  const [first] = chosen.fields;
  if (first.kind !== "lines") return [values];
  return values[first.name].map((text) => ({ [first.name]: text }));
}

function options() {
  return Object.fromEntries(chosen.options.map((option) => {
    const made = get(`option-${option.name}`);
    if (made.type === "checkbox") return [option.name, made.checked];
    return [option.name, made.value === "" ? null : Number(made.value)];
  }));
}

function curl(address, body) {
  const quoted = body.replaceAll("'", "'\\''");
  return `curl ${address} -H 'Content-Type: application/json' \\\n  -d '${quoted}'`;
}

async function submit(event) {
  event.preventDefault();
  const action = chosen, run = get("run"), asked = { instances: instances() };
  if (action.options.length) asked.options = options();
  say(null);
  if (!asked.instances.length) return say(new Error("There is no text; write some."));
  run.disabled = true;
  get("results").setAttribute("aria-busy", "true");
  try {
    const address = `${location.origin}/api/${action.name}`, body = JSON.stringify(asked);
    const request = { method: "POST", headers: { "Content-Type": "application/json" }, body };
    const soFar = (text) => {
      if (action === chosen) get("results").replaceChildren(show(action.name, asked.instances[0], { text }));
      return action === chosen;
    };
    const found = action.stream ? await streamed(`${address}/stream`, request, soFar) : await answered(address, request);
    if (action !== chosen) return; // another tab was chosen meanwhile
    const rows = found.predictions.map((row, i) => show(action.name, asked.instances[i], row));
    get("results").replaceChildren(...rows);
    get("request").textContent = curl(address, body);
    get("response").textContent = JSON.stringify(found, null, 1);
    get("json").hidden = false;
  } catch (error) {
    if (action === chosen) {
      get("results").replaceChildren();
      get("json").hidden = true;
      say(error);
    }
  } finally {
    run.disabled = false;
    get("results").removeAttribute("aria-busy");
  }
}

async function start() {
  const module = await answered("/api/module");
  get("name").textContent = module.name;
  document.title = `${module.name}: tfnlp playground`;
  get("summary").textContent = module.card.summary ?? "";
  get("notes").replaceChildren(...module.notes.map((textContent) => element("li", { textContent })));
  get("actions").replaceChildren(...module.actions.map((action) => {
    const tab = element("button", { type: "button", textContent: action.title });
    tab.dataset.name = action.name;
    tab.addEventListener("click", () => choose(action));
    return tab;
  }));
  get("form").addEventListener("submit", submit);
  get("form").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !get("run").disabled) get("form").requestSubmit();
  });
  choose(module.actions[0]);
}

start().catch(say);
